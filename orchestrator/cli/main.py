"""`polypod`: parses the command line, runs one command, turns what went wrong into a line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from orchestrator.cli.arguments import build_parser
from orchestrator.cli.failure import FINISHED, INTERRUPTED, USAGE, CommandError, explained


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point of the installed script."""
    code = run(sys.argv[1:] if arguments is None else arguments)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code."""
    _have_streams()
    parser = build_parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as end:  # argparse has said what is wrong, or printed the help
        return _flushed(end.code if isinstance(end.code, int) else USAGE)
    except BrokenPipeError:  # nobody reads the help
        return _pipe_closed()
    if options.command is None:
        parser.print_help()
        return _flushed(USAGE)
    return _flushed(_carry_out(options))


def _carry_out(options: argparse.Namespace) -> int:
    try:
        return _handler(options.handler)(options)
    except BrokenPipeError:
        return _pipe_closed()
    except KeyboardInterrupt:
        return INTERRUPTED
    except CommandError as error:
        if options.debug:
            raise
        _tell(error.message)
        return error.exit_code
    except Exception as error:
        if options.debug:
            raise
        code, words = explained(error)
        _tell(words)
        return code


def _handler(place: str) -> Callable[[argparse.Namespace], int]:
    """`module:function` below `orchestrator.cli`, loaded now and not before: start-up counts."""
    module, _, name = place.partition(":")
    handler: Callable[[argparse.Namespace], int] = getattr(importlib.import_module(f"orchestrator.cli.{module}"), name)
    return handler


def _have_streams() -> None:
    """Who starts a command without standard output or error (`>&-`) wants to hear nothing."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # it is open as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # as above


def _tell(words: str) -> None:
    sys.stderr.write(f"polypod: {words}\n")


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _pipe_closed()
    except OSError as error:
        _pipe_closed()
        failed, words = explained(error)
        if code == FINISHED:
            _tell(words)
        return code or failed
    return code


def _pipe_closed() -> int:
    """The reader went away (`| head`): nothing more to say, and Python must not complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FINISHED
