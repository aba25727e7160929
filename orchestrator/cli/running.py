"""Following a tree to its end for `run`, `demo`, `send` and `resume`: exit codes, Ctrl-C, and a lost owner."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from orchestrator.cli.audience import Audience, Ending, Silence
from orchestrator.cli.embedding import Link, Plan, join_or_own, settings_of
from orchestrator.cli.failure import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    WAITING,
    CommandError,
    GatewayProblem,
    OwnerLost,
)
from orchestrator.cli.forest import Pod, Verdict, judge, usage_of
from orchestrator.cli.watch import TreeWatch, tree_of
from orchestrator.home import Home

CANCEL_LIMIT = 15.0
"""Seconds for which a cancelled tree is given time to end."""
JOINED_GRACE = 1.5
"""Seconds an owning run stays after the last joined tree has ended, so that its runs can read their results."""
LOOK_EVERY = 0.5
QUIET_MOMENT = 1.0
"""Seconds that an owning run waits for extractions without a word."""
MEMORY_GRACE = 30.0
"""Seconds that it then waits for them, saying so."""


@dataclass(slots=True)
class Journey:
    """A run that is followed: where, which tree, and since when. `link` changes when the owner of the home is lost."""

    home: Home
    link: Link
    audience: Audience
    root_id: str
    heads: dict[str, int] = field(default_factory=dict)
    """Entries up to these seqs are old news."""
    started: float = field(default_factory=time.monotonic)


def follow_to_end(journey: Journey) -> int:
    """Tell the run until nothing moves any more, then how it ended. Gives the exit code."""
    watch = _watch(journey)
    restore = terminate_like_interrupt()
    try:
        try:
            watch, verdict, pods = _follow(journey, watch)
        except KeyboardInterrupt:
            return _cancelled(journey, watch)
        except BrokenPipeError:
            return _unheard(journey, watch)
        except (GatewayProblem, OwnerLost) as error:
            way_out = f"what is in the log is kept: `polypod resume {journey.root_id}` goes on with it"
            raise CommandError(f"{error.message}\n{way_out}", error.exit_code) from error
        code = _tell_end(journey, verdict, pods)
        try:
            _stay_for_joined(journey)
        except KeyboardInterrupt:
            return INTERRUPTED
        _stay_for_memory(journey, pods)
        return code
    finally:
        watch.close()
        restore()
        journey.link.close()


def exit_code(verdict: Verdict, outcome: str | None) -> int:
    """0 finished, 1 any other end, 3 when a person must act."""
    if verdict.kind == "stuck":
        return WAITING
    return FINISHED if outcome in ("finished", None) else FAILED


def ending_of(journey: Journey, verdict: Verdict, pods: Sequence[Pod]) -> Ending:
    """The last run's result, and what in the tree waits for a person."""
    result = _result(journey)
    questions = tuple(pod["question"] for pod in verdict.stuck if pod.get("question"))
    paused = tuple(pod for pod in verdict.stuck if pod["status"] == "paused")
    return Ending(journey.root_id, result, pods, time.monotonic() - journey.started, questions, paused)


def _watch(journey: Journey) -> TreeWatch:
    watch = TreeWatch(journey.link.gateway, journey.root_id, journey.audience)
    for pod_id, seq in journey.heads.items():
        watch.start_at(pod_id, seq)
    return watch


def _follow(journey: Journey, watch: TreeWatch) -> tuple[TreeWatch, Verdict, Sequence[Pod]]:
    """As `TreeWatch.follow`; a joined run whose owner is lost takes the home, or joins who did, and goes on."""
    while True:
        try:
            return watch, *watch.follow()
        except OwnerLost as error:
            if journey.link.owner is not None:
                raise
            journey.audience.say(f"{error.message}; this run goes on with its tree")
            journey.heads = watch.told
            watch.close()
            journey.link = join_or_own(journey.home, Plan(lambda: settings_of(journey.home), roots=(journey.root_id,)))
            watch = _watch(journey)


def _tell_end(journey: Journey, verdict: Verdict, pods: Sequence[Pod]) -> int:
    ending = ending_of(journey, verdict, pods)
    journey.audience.end(ending)
    return exit_code(verdict, ending.result.get("outcome"))


def _cancelled(journey: Journey, watch: TreeWatch) -> int:
    """Ctrl-C: cancel the own tree, tell its end, stay for the trees of others. A second one leaves at once."""
    try:
        journey.audience.say("cancelling (Ctrl-C again leaves at once)")
        try:
            journey.link.gateway.post(f"/v1/pods/{journey.root_id}/cancel", {"clear_queue": True})
            verdict, pods = watch.follow(CANCEL_LIMIT)
        except (GatewayProblem, OwnerLost) as error:
            journey.audience.say(error.message)
            return INTERRUPTED
        if not pods:
            journey.audience.say(f"not everything has stopped after {CANCEL_LIMIT:g} s; it ends with this command")
            return INTERRUPTED
        _tell_end(journey, verdict, pods)
        _stay_for_joined(journey)
    except KeyboardInterrupt:
        pass
    return INTERRUPTED


def _unheard(journey: Journey, watch: TreeWatch) -> int:
    """The reader of the output went away (`| head`): nobody waits for this run any more, so it is cancelled."""
    journey.audience, journey.heads = Silence(), watch.told
    quiet = _watch(journey)
    try:
        journey.link.gateway.post(f"/v1/pods/{journey.root_id}/cancel", {"clear_queue": True})
        quiet.follow(CANCEL_LIMIT)
        _stay_for_joined(journey)
    except (CommandError, KeyboardInterrupt):
        pass
    finally:
        quiet.close()
    return FAILED


def _stay_for_joined(journey: Journey) -> None:
    """An owning run stays until the trees of runs that joined it have ended."""
    owner, told = journey.link.owner, False
    if owner is None:
        return
    while moving := [root for root in owner.joined_roots() - {journey.root_id} if _moves(journey, root)]:
        if not told:
            number = f"{len(moving)} joined run{'s' if len(moving) > 1 else ''}"
            journey.audience.say(f"this command owns the home and stays for {number} (Ctrl-C leaves)")
            told = True
        time.sleep(LOOK_EVERY)
    if told:
        time.sleep(JOINED_GRACE)


def _stay_for_memory(journey: Journey, pods: Sequence[Pod]) -> None:
    """The extractors end with an owning run: it gives them a moment for what its tree left to extract. What they do not
    finish is due still, for whoever owns the home next."""
    owner = journey.link.owner
    if owner is None or not owner.extracts_from:
        return
    grown = [str(pod["id"]) for pod in pods if usage_of([pod])["input"] >= owner.extracts_from]
    try:
        if owner.extract(grown, QUIET_MOMENT):
            journey.audience.say("what was learnt is being staged (Ctrl-C leaves that for later)")
            owner.extract(grown, MEMORY_GRACE)
    except KeyboardInterrupt:
        return


def _moves(journey: Journey, root_id: str) -> bool:
    try:
        return judge(tree_of(journey.link.gateway, root_id).pods, root_id).kind == "moving"
    except CommandError:
        return False


def _result(journey: Journey) -> dict[str, Any]:
    result: dict[str, Any] = journey.link.gateway.get(f"/v1/pods/{journey.root_id}/result", {"wait": 0})
    return result


def terminate_like_interrupt() -> Callable[[], None]:
    """SIGTERM ends a run as Ctrl-C does. Gives what puts the old handler back."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGTERM, interrupt)

    def restore() -> None:
        signal.signal(signal.SIGTERM, old)

    return restore
