"""`run`: a task becomes a root Pod, and what it does is told until it rests."""

from __future__ import annotations

import secrets
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from orchestrator.cli.arguments import LIMITS
from orchestrator.cli.audience import Audience, JsonNarrator
from orchestrator.cli.embedding import Link, Plan, join_or_own, settings_of, with_model, working_folder
from orchestrator.cli.failure import UsageError
from orchestrator.cli.narrator import Narrator
from orchestrator.cli.paint import screen
from orchestrator.cli.reaching import home_of
from orchestrator.cli.running import Journey, follow_to_end
from orchestrator.home import Home
from orchestrator.sigils import has_references, parse


def run(options: Namespace) -> int:
    body: dict[str, Any] = {
        **spoken(read_text(options.task, "the task"), "prompt", literal=options.literal),
        "name": options.name,
        "profile": options.profile,
        "model": options.model,
        "limits": {name: value for name in LIMITS if (value := getattr(options, f"limit_{name}")) is not None},
        "workspace": str(folder_of(options.workspace)),
    }
    home = home_of(options)
    plan = Plan(lambda: settings_of(home), ready=with_model(options.model, options.profile))
    with join_or_own(home, plan) as link:
        return start_and_follow(home, link, body, as_json=options.json)


def start_and_follow(home: Home, link: Link, body: dict[str, Any], *, as_json: bool) -> int:
    """Create the Pod that `body` orders and follow it to its end."""
    body = {name: value for name, value in body.items() if value not in (None, {})}
    body["message_id"] = f"run-{secrets.token_hex(12)}"
    pod = link.gateway.post("/v1/pods", body)
    return follow_to_end(Journey(home, link, audience_for(pod["id"], as_json=as_json), pod["id"]))


def audience_for(root_id: str, *, as_json: bool) -> Audience:
    """Who the run is told to: programs with `--json`, people otherwise."""
    out = screen()
    return JsonNarrator(out) if as_json else Narrator(out, root_id)


def spoken(text: str, field: str, *, literal: bool) -> dict[str, Any]:
    """What a person typed as part of a body: under `field` as text, or as `segments` if it refers to something."""
    pieces = () if literal else parse(text)
    if has_references(pieces):
        return {"segments": [piece.segment for piece in pieces]}
    return {field: "".join(piece.text for piece in pieces) or text}


def read_text(text: str, what: str) -> str:
    """The text itself, or standard input for `-`. Raises `UsageError` for an empty one."""
    if text == "-":
        text = sys.stdin.read().removesuffix("\n")  # the line end that `echo` adds
    if not text.strip():
        raise UsageError(f"{what} is empty")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"{what} is not valid UTF-8") from None
    return text


def folder_of(named: str | None) -> Path:
    """An existing folder, absolute. Raises `UsageError`."""
    try:
        folder = (Path(named).expanduser() if named else working_folder()).resolve()
    except OSError as error:
        raise UsageError(f"the folder {named} cannot be used: {error.strerror}") from None
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    return folder
