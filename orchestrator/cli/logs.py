"""`logs`: what a Pod has done, from its log."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from orchestrator.cli.cells import clean
from orchestrator.cli.failure import FINISHED, CommandError, OwnerLost, UsageError
from orchestrator.cli.paint import Screen, screen
from orchestrator.cli.reaching import GatewayReader, Reader, find_pod, open_reader
from orchestrator.cli.seam import Gateway
from orchestrator.cli.story import Entry, raw_line, tell

PAGE = 500
RECONNECT = 0.5
"""Seconds before a stream that ended is asked for again."""


def logs(options: Namespace) -> int:
    if options.raw and options.json:
        raise UsageError("--raw and --json exclude each other")
    reader = open_reader(options)
    out = screen()
    try:
        pod = find_pod(reader, options.pod)
        printer = _Printer(out, options)
        seq = _print_stored(reader, pod["id"], options.after, printer)
        if not options.follow:
            return FINISHED
        out.flush()
        if not isinstance(reader, GatewayReader):
            raise CommandError("nobody owns this home now, so nothing more will be written: --follow ends here")
        return _follow(reader.gateway, pod["id"], seq, printer)
    finally:
        reader.close()


class _Printer:
    """Prints entries in the form that was asked for, each once."""

    def __init__(self, out: Screen, options: Namespace) -> None:
        self.out = out
        self._json: bool = options.json
        self._raw: bool = options.raw

    def entry(self, entry: Entry) -> None:
        if self._json:
            self.out.json(entry)
        elif self._raw:
            self.out.line(clean(raw_line(entry)))
        else:
            print_told(entry, self.out)


def print_told(entry: Entry, out: Screen) -> None:
    """An entry in words, with its number."""
    number = f"{entry.get('seq', ''):>5} "
    for told in tell(entry):
        lines = clean(told.text).split("\n") or [""]
        mark = f"{clean(told.mark)} " if told.mark else ""
        out.line(out.paint(number, "dim") + out.paint(mark + lines[0], told.style))
        for line in lines[1:]:
            out.line(" " * len(number) + out.paint(line, told.style))
        number = " " * len(number)


def _print_stored(reader: Reader, pod_id: str, after: int, printer: _Printer) -> int:
    """Print what is in the log; gives the last seq printed (or `after`)."""
    while True:
        entries, head = reader.log(pod_id, after, PAGE)
        for entry in entries:
            printer.entry(entry)
            after = int(entry["seq"])
        if not entries or after >= head:
            return after


def _follow(gateway: Gateway, pod_id: str, after: int, printer: _Printer) -> int:
    """Go on with the event stream until Ctrl-C, or until the Pod or the owner of the home ends."""
    while True:
        try:
            for event in gateway.stream(f"/v1/pods/{pod_id}/events", {"after": after}):
                entry = entry_of(event.name, event.data)
                if entry is not None and int(entry["seq"]) > after:
                    after = int(entry["seq"])
                    printer.entry(entry)
                    printer.out.flush()
                    if entry.get("type") == "pod_end":
                        return FINISHED
            time.sleep(RECONNECT)
            gateway.get("/healthz")  # the stream may end while the owner lives: go on where it ended
        except OwnerLost:
            raise CommandError(f"the owner of the home has ended; the log is shown up to entry {after}") from None


def entry_of(name: str, data: Any) -> Mapping[str, Any] | None:
    """The entry that a server-sent event carries, or None for live events."""
    if name == "entry":
        return data if isinstance(data, Mapping) else None
    if name == "system_item":
        item = {k: v for k, v in data.items() if k not in ("seq", "ts")}
        return {"seq": data["seq"], "ts": data.get("ts"), "type": "system_items", "items": [item]}
    return None
