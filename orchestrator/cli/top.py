"""`top`: what polypod is doing, on one screen that is kept up to date in its place."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.cli.cells import clean, count, cut, duration
from orchestrator.cli.failure import FINISHED
from orchestrator.cli.paint import STATUS_STYLES, Screen, screen
from orchestrator.cli.reaching import Reader, home_of, open_reader

_CUT_LINES, _WRAP_LINES = "\x1b[?7l", "\x1b[?7h"
_CLEAR_BELOW, _CLEAR_LINE = "\x1b[J", "\x1b[K"


def top(options: Namespace) -> int:
    out = screen()
    reader = open_reader(options)
    try:
        if options.json:
            out.json(reader.top())
        elif options.once or not out.terminal:
            for line in lines(reader.top(), None, out):
                out.line(line)
        else:
            watch(reader, out, options)
    finally:
        reader.close()
    return FINISHED


def watch(reader: Reader, out: Screen, options: Namespace) -> None:
    """Until Ctrl-C, which is how one leaves it."""
    before: Mapping[str, Any] | None = None
    drawn = 0
    out.write(_CUT_LINES)  # a wrapped line would spoil the place of the next look
    try:
        while True:
            now = reader.top()
            title = out.paint(f"polypod top  {home_of(options).path}  Ctrl-C ends", "dim")
            told = [title, *lines(now, before, out)]
            up = f"\x1b[{drawn}A" if drawn else ""
            out.write(up + "".join(f"{line}{_CLEAR_LINE}\n" for line in told) + _CLEAR_BELOW)
            out.flush()
            drawn, before = len(told), now
            time.sleep(options.interval)
    except KeyboardInterrupt:
        return
    finally:
        out.write(_WRAP_LINES)


def lines(now: Mapping[str, Any], before: Mapping[str, Any] | None, out: Screen) -> list[str]:
    """The figures of one look; `before`: those of the last, which rates are made of."""
    told = [
        ("pods", _pods(now["pods"], out)),
        ("pool", _pool(now["pool"])),
        ("queue", _queue(now["queue"])),
        ("questions", _waiting(now["questions"], "open")),
        ("store", _store(now, before)),
        ("limits", _limits(now["limits"])),
        ("directory", _directory(now["directory"])),
    ]
    return [f"{out.paint(f'{name:<10}', 'bold')} {words}" for name, words in told]


def _pods(pods: Mapping[str, Any] | None, out: Screen) -> str:
    if pods is None:
        return "the store does not answer"
    by_status = [
        out.paint(f"{number} {status}", STATUS_STYLES.get(status, "plain"))
        for status, number in pods["by_status"].items()
        if number
    ]
    return ", ".join([f"{pods['live']} live, {pods['parked']} parked", *by_status])


def _pool(pool: Mapping[str, Any] | None) -> str:
    if pool is None:
        return "no owner"
    processes = ", ".join(f"{number} {phase}" for phase, number in pool["processes"].items() if number)
    return f"{pool['ready']} ready; processes: {processes or 'none'}; nodes: {pool['nodes']}"


def _queue(queue: Mapping[str, Any] | None) -> str:
    if queue is None:
        return "-"
    kinds = ", ".join(f"{number} {clean(str(kind))}" for kind, number in queue["by_kind"].items())
    deepest = f"; {queue['deepest']} in the fullest inbox" if queue["waiting"] else ""
    return _waiting(queue, "messages") + (f" ({kinds})" if kinds else "") + deepest


def _waiting(found: Mapping[str, Any] | None, what: str) -> str:
    if found is None:
        return "-"
    oldest = "" if found["oldest"] is None else f", the oldest for {duration(found['oldest'])}"
    return f"{found['waiting']} {what}{oldest}"


def _store(now: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    store = now["store"]
    if store is None:
        return "does not answer"
    append = store["append_ms"]
    took = "" if append["p50"] is None else f"; append {_below(append['p50'])}, p99 {_below(append['p99'])}"
    rate = ""
    if before is not None and before["store"] is not None and now["now"] > before["now"]:
        seconds = (now["now"] - before["now"]) / 1000
        rate = f" ({max(0, store['entries'] - before['store']['entries']) / seconds:.0f}/s)"
    sums = f"{count(store['turns'])} turns, {count(store['requests'])} requests, {count(store['refusals'])} refusals"
    return f"{count(store['entries'])} entries{rate}, {sums}{took}"


def _below(ms: int | None) -> str:
    return "beyond all bounds" if ms is None else f"< {ms} ms"


def _limits(limits: Mapping[str, Any] | None) -> str:
    if not limits:
        return "none in use"
    told: Sequence[str] = [
        f"{cut(clean(str(model)), 40)}: {figures['under_way']} under way, {figures['waiting']} waiting"
        for model, figures in limits.items()
    ]
    return "; ".join(told)


def _directory(directory: Mapping[str, Any] | None) -> str:
    if directory is None:
        return "no owner"
    told = f"epoch {directory['epoch']}, {directory['restarts']} restarts, {directory['given_up']} given up"
    return told + (f", {directory['blocked']} blocked" if directory["blocked"] else "")
