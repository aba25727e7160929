"""`logs`: what a Pod has done, from its log."""

from __future__ import annotations

import sys
from argparse import Namespace

from orchestrator.cli.cells import clean
from orchestrator.cli.failure import FAILED, FINISHED, CommandError, OwnerLost, UsageError
from orchestrator.cli.paint import Screen, screen
from orchestrator.cli.pod_stream import PodStream, entry_of
from orchestrator.cli.reaching import GatewayReader, Reader, find_pod, open_reader
from orchestrator.cli.seam import Gateway
from orchestrator.cli.story import Entry, raw_line, tell
from orchestrator.events import Resync

PAGE = 500


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
    try:
        for event in PodStream(gateway, pod_id, after).events():
            entry = entry_of(event)
            if entry is not None:
                after = int(entry["seq"])
                printer.entry(entry)
                printer.out.flush()
                if entry.get("type") == "pod_end":
                    return FINISHED
            elif isinstance(event, Resync):
                _tell_hole(event)
    except OwnerLost:
        raise CommandError(f"the owner of the home has ended; the log is shown up to entry {after}") from None
    return FAILED


def _tell_hole(event: Resync) -> None:
    """Raises `CommandError` when the log cannot be read on."""
    if event.detail is not None:
        raise CommandError(event.detail)
    if event.goes_on:
        print(f"polypod: {event.reason}: entries up to {event.head_seq} are not shown", file=sys.stderr)
