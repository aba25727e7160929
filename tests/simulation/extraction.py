"""Runs, extractions, compactions, rewinds and kills in an order that a seed chooses, over one real store.

Two extractors may be at one session at once; any call to the store or the staging place may be the last of an
extractor's life. At rest the log must tell: ranges that follow each other without overlap or gap, a pointer that only
goes forward, one file for each range that was finished and none for any other.
"""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import dataclass, field
from typing import Any

from actors.extractor.activity import Activity
from actors.extractor.driver import Extractor
from actors.extractor.schema import TOOL
from actors.protocol.live import LiveSink
from actors.protocol.model import ModelReply, ModelRequest, Usage
from session_store.entries import Rewound, SegmentEnd, SegmentStart, UserInput
from session_store.items import Text, ToolCall
from tests.support.extraction import EMPTY, ExtractionWorld, Growing, ListeningModel, line

ACTS = {"run": 30, "rewind": 24, "compact": 8, "offer": 24, "kill": 14, "second": 6, "wait": 20}
THRESHOLD = 5_000
NUMBER = re.compile(r"ask-(\d+)-")


class Echo(ListeningModel):
    """A worker that records an attempt for every number it is shown; now and then it answers prose first."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__([line()])
        self._rng = rng

    async def reply(self, request: ModelRequest, live: LiveSink) -> ModelReply:
        for _ in range(self._rng.randrange(6)):
            await asyncio.sleep(0)
        if request.number == 1 and self._rng.random() < 0.2:
            return ModelReply((Text("Prose."),), Usage(10), "end", 1, "worker")
        seen = NUMBER.findall(request.history[0].decode())
        attempts = [{"action": number, "result": "", "succeeded": True} for number in seen]
        call = ToolCall("c", TOOL, {**EMPTY, "attempts": attempts})
        return ModelReply((call,), Usage(10), "tool_calls", 1, "worker")


@dataclass
class Line:
    """The way of one extractor to the store and the staging place; cut at once or after some more calls."""

    target: Any
    rng: random.Random
    left: int | None = None
    dead: bool = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.target, name)

        async def call(*arguments: Any) -> Any:
            for _ in range(self.rng.randrange(4)):
                await asyncio.sleep(0)
            lost = self._count()
            if self.dead and not lost:
                await asyncio.Event().wait()
            reply = await method(*arguments)  # the last call may still arrive, only its answer is lost
            if self.dead:
                await asyncio.Event().wait()
            return reply

        return call

    def _count(self) -> bool:
        """Whether this call is the one during which the process dies."""
        if self.left is None or self.dead:
            return False
        self.left -= 1
        self.dead = self.left < 0
        return self.dead and self.rng.random() < 0.5


@dataclass
class Process:
    extractor: Extractor
    lines: tuple[Line, Line]

    def dying(self) -> bool:
        return any(line.dead for line in self.lines)


@dataclass
class Story:
    """One seed. Every run is asked for a number of its own, and the worker answers with the numbers it sees."""

    seed: int
    world: ExtractionWorld = field(init=False)
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        cap = self.rng.choice((None, 1_600, 2_500))
        self.world = ExtractionWorld(threshold=THRESHOLD, max_input_tokens=cap, first_pause=0.0)
        self.world.model = Echo(self.rng)
        self.asked = 0
        self.withdrawn: set[str] = set()
        self.session = self.world.session()
        self.occupancy = 1_000
        self.processes = [self._process()]
        self.inputs: list[tuple[int, int]] = []

    async def play(self) -> None:
        for _ in range(self.rng.randint(10, 90)):
            act = self.rng.choices(list(ACTS), list(ACTS.values()))[0]
            self.trace.append(f"{act} at {self.session.head}")
            await self._act(act)
            for _ in range(self.rng.randrange(8)):
                await asyncio.sleep(0)
            for process in [p for p in self.processes if p.dying()]:
                await self._bury(process)
        await self._come_to_rest()
        self._check()

    async def _act(self, act: str) -> None:
        rng = self.rng
        match act:
            case "run":
                self.inputs.append((self.session.head + 2, self.occupancy))
                steps = [self.occupancy + rng.randrange(4_000) for _ in range(rng.randint(1, 3))]
                self.occupancy = max(steps)
                self.asked += 1
                words = f"ask-{self.asked}- " + "word " * rng.randrange(400)
                outcome = "withdrawn" if rng.random() < 0.1 else "finished"
                if outcome == "withdrawn":
                    self.withdrawn.add(str(self.asked))
                self.session.run(*sorted(steps), prompted=words, outcome=outcome)
            case "rewind" if self.inputs:
                place = rng.randrange(len(self.inputs))
                to, self.occupancy = self.inputs[place]
                del self.inputs[place:]
                self.session.append(Rewound(to))
            case "compact":
                await self._within(self.processes[0].extractor.fix("s", self.session.head))
                self.session.append(SegmentEnd(), SegmentStart("s", {}, "be good", (), 1))
                self.occupancy = 1_000
                self.inputs.clear()
            case "offer":
                for process in self.processes:
                    process.extractor.offer("s")
            case "kill":
                rng.choice(rng.choice(self.processes).lines).left = rng.randrange(12)
            case "second" if len(self.processes) == 1:
                self.processes.append(self._process())
            case _:
                for _ in range(rng.randrange(60)):
                    await asyncio.sleep(0)

    async def _come_to_rest(self) -> None:
        for process in list(self.processes):
            for line_ in process.lines:
                line_.left = None
            if process.dying():
                await self._bury(process)
        self.session.run(self.occupancy, self.occupancy + 3 * THRESHOLD)
        for process in self.processes:
            await self._within(process.extractor.look("s"))
        for process in self.processes:
            await process.extractor.close()

    async def _within(self, work: Any) -> None:
        """Some calls die with the process that they are made to."""
        task = asyncio.ensure_future(work)
        for _ in range(4_000):
            if task.done() or any(p.dying() for p in self.processes):
                break
            await asyncio.sleep(0)
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _bury(self, process: Process) -> None:
        """Ray starts another in its place, which looks everywhere."""
        self.trace.append("an extractor dies")
        self.processes.remove(process)
        await process.extractor.close()
        heir = self._process()
        self.processes.append(heir)
        heir.extractor.offer("s")

    def _process(self) -> Process:
        store, staging = Line(self.world.store, self.rng), Line(self.world.staging, self.rng)
        return Process(self.world.extractor(store=store, staging=staging), (store, staging))

    def _check(self) -> None:
        session, world = self.session, self.world
        activity, accepted, done, covered = Activity(), [], [], []
        for entry in session.log:
            before = activity.open
            activity.apply(entry)
            if activity.open is not None and before is None:
                accepted.append((activity.open.start, activity.open.end))
                covered.append(self._covered(activity))
            if before is not None and activity.open is None and activity.processed == before.end:
                done.append((before.start, before.end))
                shown = [a["action"] for a in self._file(done[-1])["attempts"]]
                assert shown == covered[-1], "shown is what the range covers, without what was removed"
        assert session.pointers == sorted(set(session.pointers)), "the pointer only goes forward"
        assert [end for _, end in done] == session.pointers, "every pointer ends the range that was open"
        assert [start for start, _ in done] == [1, *(end + 1 for _, end in done[:-1])], "no gap and no overlap"
        assert world.staging.ranges() == done, "one file for each finished range, none for any other"
        assert activity.open is None, "what was begun is finished"
        assert activity.tokens(activity.rest) < THRESHOLD, "nothing is due any more"
        assert set(accepted) >= set(done)

    def _covered(self, activity: Activity) -> list[str]:
        """Numbers asked for in the range that was just opened, as the history was then."""
        assert activity.open is not None
        first, last = activity.open.start, activity.open.end
        return [
            number
            for e in self.session.log
            if isinstance(e, UserInput) and first <= e.seq <= last and not activity.removed(e.seq)
            for number in NUMBER.findall(e.segments[0].text)
            if number not in self.withdrawn
        ]

    def _file(self, done: tuple[int, int]) -> Any:
        return next(p for p in self.world.staging.plain() if tuple(p["source"]["range"]) == done)


class StoryFailed(AssertionError):
    def __init__(self, story: Story, cause: BaseException) -> None:
        tail = "\n".join(story.trace[-30:])
        super().__init__(f"seed {story.seed}: {type(cause).__name__}: {cause}\n{tail}")


def play(seed: int) -> Growing:
    """Raises `StoryFailed`, which says what happened and how to see it again."""
    story = Story(seed)
    try:
        asyncio.run(story.play())
    except Exception as error:
        raise StoryFailed(story, error) from error
    return story.session
