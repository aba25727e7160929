"""`memory`: what is staged of the sessions, for another process to consume."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from orchestrator.cli.cells import clean, one_line, table
from orchestrator.cli.embedding import settings_of, warn
from orchestrator.cli.failure import FINISHED, CommandError, UsageError, explained
from orchestrator.cli.forest import short_ids
from orchestrator.cli.paint import Screen, screen
from orchestrator.cli.reaching import home_of, open_reader, reach
from orchestrator.home import Home
from orchestrator.staged import Extraction, FolderUnreadable, Listing, listing
from session_store.codec import time_text
from session_store.errors import StoreError

NAME_WIDTH = 40
KINDS = ("decisions", "discussions", "attempts", "requests")
_HEAD = ["ID", "POD", "SESSION", "RANGE", "#DECISIONS", "#DISCUSSIONS", "#ATTEMPTS", "#REQUESTS", "STAGED"]


def memory(options: Namespace) -> int:
    try:
        found = listing(memory_root(home_of(options)))
    except FolderUnreadable as error:
        raise CommandError(str(error)) from None
    shown = found.extractions if options.id is None else (chosen(found, options.id),)
    names = _names(options) if shown else {}
    out = screen()
    if options.id is not None:
        _show(shown[0], names, options.json, out)
    elif options.json:
        out.json(
            {
                "folder": str(found.folder),
                "extractions": [_row(extraction, names) for extraction in shown],
                "left_out": [{"file": str(file.path), "reason": file.reason} for file in found.left_out],
            }
        )
    else:
        _list(found, names, out)
    return FINISHED


def memory_root(home: Home) -> Path:
    """The owner's, whose folder may be another than this one; without an owner, that of the settings here."""
    reach(home)
    owner = home.owner()
    return Path(owner.memory_root if owner is not None and owner.memory_root else settings_of(home).memory_root)


def chosen(found: Listing, text: str) -> Extraction:
    """The one extraction whose id is `text`, or begins with it. Raises `UsageError`."""
    wanted = text.lower()
    fitting = [extraction for extraction in found.extractions if extraction.id.startswith(wanted)]
    if wanted and len(fitting) == 1:
        return fitting[0]
    if wanted and fitting:
        several = ", ".join(short_ids(extraction.id for extraction in fitting).values())
        raise UsageError(f"{text!r} may mean {len(fitting)} extractions: {several}; say more of the id")
    for file in found.left_out:
        if wanted and file.path.name.lower().startswith(wanted):
            raise CommandError(f"{file.path} is no extraction: {file.reason}")
    raise UsageError(f"nothing is staged under {text!r} in {found.folder}; `polypod memory` lists what is")


def _names(options: Namespace) -> Mapping[str, str]:
    """Names of Pods by session. The files are shown also when the store cannot be asked."""
    try:
        reader = open_reader(options)
        try:
            return {pod["id"]: str(pod["name"]) for pod in reader.pods() if pod.get("name")}
        finally:
            reader.close()
    except (CommandError, StoreError) as error:
        warn(f"the Pods' names are not known: {explained(error)[1] if isinstance(error, StoreError) else error}")
        return {}


def _row(extraction: Extraction, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": extraction.id,
        "session_id": extraction.session,
        "pod_name": names.get(extraction.session),
        "range": list(extraction.range),
        "counts": _counts(extraction),
        "staged_at": time_text(extraction.at),
        "file": str(extraction.path),
    }


def _counts(extraction: Extraction) -> dict[str, int]:
    return {kind: len(extraction.plain[kind]) for kind in KINDS}


def _list(found: Listing, names: Mapping[str, str], out: Screen) -> None:
    if not found.extractions:
        out.line(f"nothing is staged in {clean(str(found.folder))}", "dim")
    else:
        short = short_ids(extraction.id for extraction in found.extractions)
        sessions = short_ids(extraction.session for extraction in found.extractions)
        rows = [
            [
                short[extraction.id],
                one_line(names.get(extraction.session, "-"), NAME_WIDTH),
                sessions[extraction.session],
                _range(extraction),
                *(str(number) for number in _counts(extraction).values()),
                _time(extraction.at),
            ]
            for extraction in found.extractions
        ]
        head, *lines = table(_HEAD, rows, out.width)
        out.line(head, "dim")
        for line in lines:
            out.line(line)
    for file in found.left_out:
        out.line(clean(f"left out: {file.path.name}: {file.reason}"), "yellow")


def _show(extraction: Extraction, names: Mapping[str, str], as_json: bool, out: Screen) -> None:
    if as_json:
        out.json({**_row(extraction, names), **{kind: extraction.plain[kind] for kind in KINDS}})
        return
    name = one_line(names.get(extraction.session, ""), NAME_WIDTH)
    out.line(extraction.id, "bold")
    whose = [name, clean(extraction.session), f"entries {_range(extraction)}", f"staged {_time(extraction.at)}"]
    out.line("  ".join(filter(None, whose)))
    out.line(clean(str(extraction.path)), "dim")
    for kind in KINDS:
        out.line()
        records = extraction.plain[kind]
        out.line(kind if records else f"{kind}: none", "bold" if records else "dim")
        for record in records:
            first, *more = _TOLD[kind](record)
            out.line(_indented(first, 2))
            for line in more:
                out.line(_indented(line, 4), "dim")


def _decision(record: Mapping[str, Any]) -> Iterable[str]:
    return (f"{record['chosen']}", f"of: {' | '.join(record['options'])}", record["rationale"])


def _discussion(record: Mapping[str, Any]) -> Iterable[str]:
    return (record["topic"], *(f"- {point}" for point in record["points"]))


def _attempt(record: Mapping[str, Any]) -> Iterable[str]:
    return (f"{'done' if record['succeeded'] else 'failed'}: {record['action']}", record["result"])


def _request(record: Mapping[str, Any]) -> Iterable[str]:
    target = f" ({record['target']})" if record.get("target") else ""
    return (f"{record['intent']}{target}", record["summary"])


_TOLD: Mapping[str, Callable[[Mapping[str, Any]], Iterable[str]]] = {
    "decisions": _decision,
    "discussions": _discussion,
    "attempts": _attempt,
    "requests": _request,
}


def _indented(text: str, by: int) -> str:
    """A model's words, made safe; its further lines stand below the first."""
    return "\n".join(" " * by + line for line in clean(text).split("\n"))


def _range(extraction: Extraction) -> str:
    start, end = extraction.range
    return f"{start}-{end}"


def _time(at: int) -> str:
    """By the clock on the wall here."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1000))
