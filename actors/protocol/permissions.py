"""Permission rules as settings and configs hold them: what a rule may say, and to whom it applies. Pure."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Subject: TypeAlias = Literal["path", "tree", "command", "profile", "call", "own"]
"""What a rule's pattern is matched with: the file, the folder searched with all that is below it, the command, the
child's profile; nothing (`call`, `own`). `own` tools touch nothing but the Pod's own session: they are asked about only
where a rule names them."""

SUBJECTS: Final[dict[str, Subject]] = {
    "Read": "path",
    "Write": "path",
    "Edit": "path",
    "Glob": "tree",
    "Grep": "tree",
    "Shell": "command",
    "SpawnPod": "profile",
    "SendToPod": "call",
    "StopPod": "call",
    "ReadPodOutput": "own",
    "WaitForPods": "own",
    "ListPods": "own",
    "clarify": "own",
    "TaskCreate": "own",
    "TaskUpdate": "own",
    "TaskList": "own",
    "TaskGet": "own",
    "todo": "own",
}
"""Every tool that a rule may name."""
ANY = "*"
FILE_SUBJECTS = ("path", "tree")
_RULE = re.compile(r"(\*|[A-Za-z][A-Za-z0-9_]*)(?:\((.*)\))?", re.DOTALL)
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Rule:
    """`tool` `*` means every tool that is not the session's `own`, with a pattern every tool that works on files.
    Without a pattern every call is meant."""

    tool: str
    pattern: str | None = None

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    def names(self, tool: str) -> bool:
        if self.tool != ANY:
            return self.tool == tool
        subject = SUBJECTS.get(tool)
        return subject in FILE_SUBJECTS if self.pattern is not None else subject != "own"


@dataclass(frozen=True, slots=True)
class PermissionRules:
    """One profile's rules as a session was created with them; `root` is the folder of relative path patterns.

    A session has those of its own profile and those of the Pods above it; the strictest decides. `bypass`: what would
    be asked is allowed. `away`: nobody is there, what would be asked is denied.
    """

    profile: str
    root: str
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    bypass: bool = False
    away: bool = False


def parse_rule(text: str) -> Rule:
    """`Tool` or `Tool(pattern)`. Raises `ValueError` for a rule that could not be kept as it is meant."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no rule: write `Tool` or `Tool(pattern)`.")
    tool, pattern = match.group(1), match.group(2)
    subject = SUBJECTS.get(tool)
    if tool != ANY and subject is None:
        near = difflib.get_close_matches(tool, SUBJECTS, n=1)
        hint = f" Did you mean {near[0]}?" if near else f" The tools are: {', '.join(SUBJECTS)}."
        raise ValueError(f"{text!r} names no tool.{hint}")
    if pattern is None:
        return Rule(tool)
    pattern = pattern.strip()
    if not pattern:
        raise ValueError(f"{text!r} has an empty pattern: leave the brackets out to mean every call.")
    if subject in ("call", "own"):
        raise ValueError(f"{text!r}: {tool} takes no pattern, a rule is for all its calls.")
    if subject in FILE_SUBJECTS or tool == ANY:
        _check_path(text, pattern)
    return Rule(tool, pattern)


def _check_path(text: str, pattern: str) -> None:
    if "{" in pattern or "}" in pattern:
        raise ValueError(f"{text!r}: `{{a,b}}` has no meaning in a rule: write one rule for each.")
    wild = _WILD.search(pattern)
    if wild is not None and ".." in pattern[wild.start() :].split("/"):
        raise ValueError(f"{text!r}: `..` cannot come after a wildcard.")
