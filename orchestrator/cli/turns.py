"""`rewind` and `fork`: back to an earlier prompt, and off from one. `compact`: a shorter history."""

from __future__ import annotations

import secrets
import time
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

from orchestrator.cli.cells import clean, count, cut, one_line
from orchestrator.cli.embedding import Plan, join_or_own, settings_of
from orchestrator.cli.failure import FAILED, FINISHED, CommandError, UsageError
from orchestrator.cli.forest import Pod
from orchestrator.cli.paint import screen
from orchestrator.cli.reaching import Reader, find_pod, home_of, open_reader, pod_of
from orchestrator.cli.seam import Gateway
from orchestrator.cli.story import Entry, problem_words, segments_text
from session_store.codec import entry_from_plain
from session_store.status import StatusFold

PAGE = 500
COMPACT_LIMIT = 900.0
"""Seconds for which `compact` waits; a compaction has a limit of its own (`compaction.timeout`)."""
SETTLE = 15.0
"""Seconds for which `rewind` waits until it took place."""
_SHOWN = 100


def rewind(options: Namespace) -> int:
    """To before the prompt at `options.seq`; with `--list` only show which prompts there are."""
    if options.list:
        return _list(options)
    if options.seq is None:
        raise UsageError(f"to which prompt? `polypod rewind {options.pod} --list` shows their numbers")
    pod = pod_of(options)
    home = home_of(options)
    with join_or_own(home, Plan(lambda: settings_of(home), roots=(pod["root_id"],))) as link:
        path = f"/v1/pods/{pod['id']}"
        before: Pod = link.gateway.get(path)
        order = {
            "to_seq": options.seq,
            "expected_head": before["head_seq"],
            "message_id": f"rewind-{secrets.token_hex(12)}",
        }
        told = _taken_place(link.gateway, path, order)
    _tell_rewound(options, pod, told)
    return FINISHED


def fork(options: Namespace) -> int:
    pod = pod_of(options)
    home = home_of(options)
    body: dict[str, Any] = {"message_id": f"fork-{secrets.token_hex(12)}"}
    if options.at is not None:
        body["at_seq"] = options.at
    if options.name is not None:
        body["name"] = options.name
    with join_or_own(home, Plan(lambda: settings_of(home))) as link:
        made: Pod = link.gateway.post(f"/v1/pods/{pod['id']}/fork", body)
    out = screen()
    if options.json:
        out.json(made)
        return FINISHED
    out.line(
        f"{clean(str(made['name']))}  {made['id']}  forked from {clean(str(pod.get('name') or pod['id']))}", "bold"
    )
    if made["status"] == "waiting_on_user":
        out.line(f"it asks: {clean(str((made.get('question') or {}).get('question')))}", "yellow")
    out.line(f'polypod send {_word(str(made["name"]))} "…" goes on from there', "dim")
    return FINISHED


def compact(options: Namespace) -> int:
    """Exit 1 when it was tried and the history stays as it was."""
    pod = pod_of(options)
    home = home_of(options)
    order = {"message_id": f"compact-{secrets.token_hex(12)}"}
    with join_or_own(home, Plan(lambda: settings_of(home), roots=(pod["root_id"],))) as link:
        told = _tried(link.gateway, f"/v1/pods/{pod['id']}", order)
    out = screen()
    name = clean(str(pod.get("name") or pod["id"]))
    if options.json:
        out.json(told)
    elif told["compacted"]:
        out.line(f"{name}: compacted from about {count(told['before'])} to {count(told['after'])} tokens")
    else:
        out.line(f"{name}: not compacted: {clean(problem_words(told.get('error')))}", "red")
    return FINISHED if told["compacted"] else FAILED


def prompts_in_history(entries: Iterable[Entry]) -> list[Entry]:
    """The `user_input` entries of a log that are in its present history, oldest first."""
    fold, prompts = StatusFold(), []
    for entry in entries:
        fold.apply(entry_from_plain(dict(entry), int(entry["seq"]), 0))
        if entry.get("type") == "user_input":
            prompts.append(entry)
    return [prompt for prompt in prompts if fold.in_history(int(prompt["seq"]))]


def _list(options: Namespace) -> int:
    reader = open_reader(options)
    try:
        pod = find_pod(reader, options.pod)
        prompts = prompts_in_history(_log(reader, pod["id"]))
    finally:
        reader.close()
    out = screen()
    if options.json:
        out.json([_prompt_view(prompt) for prompt in prompts])
        return FINISHED
    if not prompts:
        out.line(f"{clean(str(pod.get('name') or pod['id']))} has no prompt in its history")
    for prompt in prompts:
        view = _prompt_view(prompt)
        sender = "" if view["from"] == "user" else f"from {view['from']}: "
        out.line(f"{view['seq']:>6}  {one_line(sender + view['text'], max(out.width - 8, 20))}")
    return FINISHED


def _log(reader: Reader, pod_id: str) -> list[Entry]:
    entries: list[Entry] = []
    after = 0
    while True:
        page, head = reader.log(pod_id, after, PAGE)
        entries += page
        if not page or int(page[-1]["seq"]) >= head:
            return entries
        after = int(page[-1]["seq"])


def _prompt_view(prompt: Entry) -> dict[str, Any]:
    return {
        "seq": prompt["seq"],
        "ts": prompt.get("ts"),
        "from": prompt.get("from", "user"),
        "text": segments_text(prompt.get("segments")),
    }


def _taken_place(gateway: Gateway, path: str, order: dict[str, Any]) -> dict[str, Any]:
    """The answer once the rewind took place: the same order may be sent again, so that is how it is asked for."""
    limit = time.monotonic() + SETTLE
    while True:
        told: dict[str, Any] = gateway.post(f"{path}/rewind", order)
        if told["rewound"] is not None:
            return told
        if time.monotonic() > limit:
            raise CommandError(f"the rewind is accepted and has not taken place after {SETTLE:g} s; `polypod ps` shows")
        time.sleep(0.1)


def _tried(gateway: Gateway, path: str, order: dict[str, Any]) -> dict[str, Any]:
    """The answer once it is known what came of it: the same order may be sent again."""
    limit = time.monotonic() + COMPACT_LIMIT
    while True:
        told: dict[str, Any] = gateway.post(f"{path}/compact", order)
        if told["compacted"] is not None:
            return told
        if time.monotonic() > limit:
            raise CommandError(
                f"the compaction goes on after {COMPACT_LIMIT:g} s; `polypod logs` shows what comes of it"
            )
        time.sleep(0.3)


def _tell_rewound(options: Namespace, pod: Pod, told: dict[str, Any]) -> None:
    out = screen()
    if options.json:
        out.json(told)
        return
    out.line(
        f"{clean(str(pod.get('name') or pod['id']))}: rewound to before entry {options.seq}; it is {told['status']}"
    )
    text = segments_text((told.get("prompt") or {}).get("segments"))
    if text:
        out.line(f"taken back: {cut(one_line(text, _SHOWN), _SHOWN)}", "dim")


def _word(name: str) -> str:
    """A name as one word of a command line."""
    return f'"{name}"' if " " in name else name
