"""What can be written on the command line. Handlers are named, not imported."""

from __future__ import annotations

import argparse
from typing import Any

from orchestrator.home import DEFAULT_HOME, HOME_VARIABLE, VERSION

_EXITS = (
    "exit codes of run, demo, send, answer and resume: 0 finished, 1 error or limit, 2 wrong use or settings, "
    "3 waiting on a person, 130 Ctrl-C"
)
_POD = "id, beginning of an id, or name of a Pod"
_LITERAL = "take `@path`, `#slug` and `/slug` as plain text (or escape one: `\\@`)"
LIMITS = ("requests", "tokens", "seconds", "depth", "children")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line. Each command's namespace has `command`, `handler` and `debug`."""
    parser = argparse.ArgumentParser(
        prog="polypod", description="Run trees of LLM agent Pods over a durable log.", epilog=_EXITS
    )
    parser.add_argument("--home", metavar="DIR", help=f"the home (default: ${HOME_VARIABLE}, else {DEFAULT_HOME})")
    parser.add_argument("--debug", action="store_true", help="show the whole traceback of an error")
    parser.add_argument("--version", action="version", version=f"polypod {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _add_working(commands)
    _add_looking(commands)
    _add_steering(commands)
    _add_keeping(commands)
    return parser


def _add_working(commands: Any) -> None:
    run = _add(commands, "run", "run:run", "run a task and show it as it happens", json_help="JSON lines, result last")
    run.epilog = _EXITS
    run.add_argument("task", help="what to do, in quotes; `-` reads it from standard input")
    run.add_argument("--literal", action="store_true", help=_LITERAL)
    run.add_argument("--profile", help="a profile from the settings (default: `default`)")
    run.add_argument("--model", help="a model from the settings (default: that of the profile)")
    run.add_argument("--name", help="name of the Pod")
    run.add_argument("--workspace", metavar="DIR", help="folder to work in (default: this one)")
    for name in LIMITS:
        run.add_argument(f"--limit-{name}", type=_LIMIT_TYPE[name], metavar="N", help=_LIMIT_HELP[name])

    demo = _add(
        commands, "demo", "demo:demo", "a tree of Pods takes a census of a folder, without key or network",
        json_help="JSON lines, result last",
    )  # fmt: skip
    demo.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="folder to count (default: this one)")
    demo.add_argument("--live", action="store_true", help="let the configured model do the same job")

    serve = _add(commands, "serve", "serve:serve", "own the home and serve its Pods over HTTP until stopped")
    serve.add_argument("--host", help="address to listen on (default: 127.0.0.1; others need a token)")
    serve.add_argument("--port", type=int, help="port to listen on (default: 7420; 0: any free one)")
    serve.add_argument(
        "--ray-address", metavar="ADDRESS", help="attach to this running Ray cluster (`auto`, HOST:PORT), start none"
    )


def _add_looking(commands: Any) -> None:
    attach = _add(commands, "attach", "attach:attach", "watch and steer a Pod on the whole screen")
    attach.add_argument("pod", nargs="?", metavar="POD", help=f"{_POD}; without it: the root that was busy last")

    ps = _add(commands, "ps", "ps:ps", "list Pods", json_help="a JSON array")
    ps.add_argument("--status", choices=STATUSES, metavar="STATUS", help=f"only these: {', '.join(STATUSES)}")
    ps.add_argument("--waiting", action="store_true", help="only those that wait for a person, with their questions")
    ps.add_argument("--all", action="store_true", help="ended ones too")

    _add(commands, "inbox", "asking:inbox", "list what people are asked, oldest first", json_help="a JSON array")

    tree = _add(commands, "tree", "ps:tree", "draw the tree of Pods", json_help="nested JSON")
    tree.add_argument("pod", nargs="?", metavar="POD", help=f"{_POD}; without it: all trees")

    logs = _add(commands, "logs", "logs:logs", "show a Pod's log", json_help="JSON lines, whole entries")
    logs.add_argument("pod", metavar="POD", help=_POD)
    logs.add_argument("--follow", "-f", action="store_true", help="go on with what is written from now on")
    logs.add_argument("--raw", action="store_true", help="one line per entry")
    logs.add_argument("--after", type=_count, default=0, metavar="N", help="only entries after number N")

    tasks = _add(commands, "tasks", "tasks:tasks", "show a Pod's task list", json_help="JSON")
    tasks.add_argument("pod", metavar="POD", help=_POD)

    usage = _add(commands, "usage", "usage:usage", "tokens and their cost", json_help="JSON")
    usage.add_argument("pod", nargs="?", metavar="POD", help=f"{_POD}, and those below it; without it: all")
    usage.add_argument(
        "--by", choices=("pod", "tree", "model", "worker"), default="pod", help="what a row stands for (default: pod)"
    )

    memory = _add(commands, "memory", "memory:memory", "list what is staged of the sessions, or show one", "JSON")
    memory.add_argument("id", nargs="?", metavar="ID", help="id of an extraction, or its beginning; without it: all")

    top = _add(commands, "top", "top:top", "show what polypod is doing, kept up to date", json_help="one object, once")
    top.add_argument("--interval", type=_seconds, default=1.0, metavar="SECONDS", help="between two looks (default: 1)")
    top.add_argument("--once", action="store_true", help="look once and end")

    _add(
        commands, "doctor", "doctor:doctor", "look at everything polypod needs and say what is wrong", json_help="JSON"
    )


def _add_steering(commands: Any) -> None:
    send = _add(
        commands, "send", "control:send", "send a prompt, or the answer to an open question", json_help="JSON"
    )  # fmt: skip
    send.epilog = _EXITS
    send.add_argument("pod", metavar="POD", help=_POD)
    send.add_argument("text", help="what to say, in quotes; `-` reads it from standard input")
    busy = send.add_mutually_exclusive_group()
    busy.add_argument("--steer", action="store_const", const="steer", dest="when_busy", help="if busy: into this run")
    busy.add_argument(
        "--interrupt", action="store_const", const="interrupt", dest="when_busy", help="if busy: cut this run short"
    )
    busy.add_argument("--reject", action="store_const", const="reject", dest="when_busy", help="if busy: refuse")
    send.add_argument("--literal", action="store_true", help=_LITERAL)
    send.add_argument("--wait", action="store_true", help="show the run that serves it, as `run` does")

    answer = _add(commands, "answer", "asking:answer", "answer an open question", json_help="JSON")
    answer.epilog = (
        "Without an answer the question is asked at the terminal. On a home that nobody owns the run is shown to its "
        "end. " + _EXITS
    )
    answer.add_argument("question", metavar="POD|QUESTION", help=f"{_POD}, or the id of its question")
    answer.add_argument("words", nargs="?", metavar="TEXT", help="a choice, or the answer in words; `-` reads it")
    answer.add_argument("--choice", metavar="LABEL", help="one of the choices")
    answer.add_argument("--text", help="the answer in words, or what is to be said with the choice")
    answer.add_argument("--wait", action="store_true", help="show the run that goes on with it, as `run` does")

    for name, words in (
        ("stop", "end a Pod and those below it for good"),
        ("pause", "pause a Pod's run after what it is doing now"),
        ("resume", "go on with a paused, failed or abandoned run"),
        ("cancel", "cancel a Pod's run and those below it"),
    ):
        command = _add(commands, name, f"control:{name}", words, json_help="JSON")
        command.add_argument("pod", metavar="POD", help=_POD)
        if name == "cancel":
            command.add_argument("--clear-queue", action="store_true", help="and take back the prompts that wait")

    shorten = _add(commands, "compact", "turns:compact", "make a Pod's history shorter", json_help="JSON")
    shorten.add_argument("pod", metavar="POD", help=_POD)
    rewind = _add(commands, "rewind", "turns:rewind", "go back to before an earlier prompt", json_help="JSON")
    rewind.add_argument("pod", metavar="POD", help=_POD)
    rewind.add_argument("seq", nargs="?", type=_positive, metavar="SEQ", help="number of the prompt's entry")
    rewind.add_argument("--list", action="store_true", help="show the prompts of its history with their numbers")
    fork = _add(
        commands, "fork", "turns:fork", "make a new Pod that goes on from a turn of this one", json_help="JSON"
    )  # fmt: skip
    fork.add_argument("pod", metavar="POD", help=f"{_POD}; also an ended one")
    fork.add_argument("--at", type=_positive, metavar="SEQ", help="entry to go on from (default: the last)")
    fork.add_argument("--name", help="name of the new Pod")


def _add_keeping(commands: Any) -> None:
    _add(commands, "check", "check:check", "look for damage in the store (exit 1 when there is any)", json_help="JSON")
    export = _add(commands, "export", "transfer:export", "write a session as JSON lines")
    export.add_argument("pod", metavar="POD", help=_POD)
    export.add_argument("-o", "--output", metavar="FILE", help="write there instead of standard output")
    export.add_argument("--tree", action="store_true", help="with all Pods below it")
    bring = _add(commands, "import", "transfer:bring", "read sessions that were exported", json_help="JSON")
    bring.add_argument("file", metavar="FILE", help="the file; `-` reads standard input")


def _add(commands: Any, name: str, handler: str, words: str, json_help: str | None = None) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=words, description=words[0].upper() + words[1:] + "."
    )
    parser.set_defaults(handler=handler)
    # Also after the command; SUPPRESS keeps what was said before it.
    parser.add_argument("--home", metavar="DIR", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    if json_help is not None:
        parser.add_argument("--json", action="store_true", help=f"for programs: {json_help}")
    return parser


def _count(text: str) -> int:
    return _number(text, 0)


def _positive(text: str) -> int:
    return _number(text, 1)


def _number(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"a whole number from {least} on is needed, not {text!r}")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"a number of seconds above 0 is needed, not {text!r}")
    return number


STATUSES = ("idle", "running", "waiting_on_user", "waiting_on_children", "paused", "errored", "ended")
_LIMIT_TYPE: dict[str, Any] = {
    "requests": _positive,
    "tokens": _positive,
    "seconds": _seconds,
    "depth": _count,
    "children": _count,
}
_LIMIT_HELP = {
    "requests": "model requests per run",
    "tokens": "tokens per run, input and output",
    "seconds": "seconds per run",
    "depth": "levels of children",
    "children": "children at a time",
}
