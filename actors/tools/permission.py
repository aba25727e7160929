"""Judges a call by the rules of its session: what it would really touch, allow, ask or deny. Unsure never means allow.

A rule is matched with the resolved argument: the file that links, `..` and relative parts lead to. Rules that deny or
ask also match what differs in letter case only; rules that allow do not.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from actors.protocol.permissions import FILE_SUBJECTS, SUBJECTS, PermissionRules, Rule, parse_rule
from actors.protocol.tools import PermissionAsk, ToolContext, ToolOutcome
from actors.tools.offload import in_thread
from actors.tools.patterns import PathPattern, matches_name
from actors.tools.scope import absolute
from actors.tools.shell_rules import covered, mentioned, readable
from actors.tools.text import one_line, printable
from session_store.items import ToolCall

SHOWN = 4_000
"""Characters of a command that a question shows; the whole call stands in the log beside it."""

NAMED = 1_000
"""Characters of what a decision is about; of more, a digest stands for the rest."""

Decision = Literal["allow", "ask", "deny"]
_STRICTNESS: dict[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True)
class Target:
    """What a call would touch: `value` is the real path, the command, the profile, or the arguments as JSON."""

    tool: str
    value: str

    @property
    def subject(self) -> str:
        """What a person's decision is about, and what a grant covers: no more than this very thing."""
        if len(self.value) <= NAMED:
            return f"{self.tool} {self.value}"
        digest = hashlib.sha256(self.value.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.tool} {self.value[:100]}… sha256:{digest}"


@dataclass(frozen=True, slots=True)
class Judgement:
    decision: Decision
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Permissions:
    """The rules of one session, `layers`, and the name of its profile."""

    layers: tuple[PermissionRules, ...] = ()
    profile: str = ""

    async def check(self, call: ToolCall, context: ToolContext) -> ToolContext | ToolOutcome:
        """The context to run the call with, or what stands for its run: a denial, or the question to a person.

        Its arguments have been checked. Raises `ToolRefusal` for what can be no path.
        """
        if not self.layers:
            return context
        return await in_thread(lambda _: self._check(call, context))

    def _check(self, call: ToolCall, context: ToolContext) -> ToolContext | ToolOutcome:
        target = target_of(call.name, call.arguments or {}, context, self.profile)
        allowed = {context.permitted} if context.permitted is not None else set()
        judgement = judge(self.layers, target, context.grants | allowed)
        match judgement.decision:
            case "allow":
                is_path = SUBJECTS.get(call.name) in FILE_SUBJECTS
                return replace(context, judged=target.value) if is_path else context
            case "ask" if context.permitted is None:
                return asking(target, judgement, context.pod_name)
            case "ask":  # a link was changed while the person thought about it
                moved = Judgement("deny", f"it now leads to {target.value}, which is not what was allowed")
                return denial(target, moved)
            case _:
                return denial(target, judgement)


def target_of(tool: str, arguments: dict[str, Any], context: ToolContext, profile: str) -> Target:
    """`arguments` have been checked. Raises `ToolRefusal` for what can be no path."""
    match SUBJECTS.get(tool):
        case "path" | "tree":
            path = arguments.get("path")
            return Target(tool, os.path.realpath(absolute("." if path is None else path, str(context.workspace))))
        case "command":
            return Target(tool, str(arguments.get("command")))
        case "profile":
            return Target(tool, str(arguments.get("profile") or profile))
        case _:
            return Target(tool, json.dumps(arguments, sort_keys=True, ensure_ascii=False))


def judge(layers: Sequence[PermissionRules], target: Target, granted: frozenset[str]) -> Judgement:
    """The strictest that any layer says. `granted`: subjects that a person has allowed; no grant undoes a deny."""
    worst = Judgement("allow")
    for layer in layers:
        found = _by_layer(layer, target)
        if found.decision == "ask":
            if layer.bypass or target.subject in granted:
                found = Judgement("allow")
            elif layer.away:
                found = Judgement("deny", f"{found.reason}, and nobody is there to be asked")
        if _STRICTNESS[found.decision] > _STRICTNESS[worst.decision]:
            worst = found
    return worst


def asking(target: Target, judgement: Judgement, pod_name: str) -> ToolOutcome:
    """What stands for the call until a person has decided."""
    shown = printable(target.value)
    if len(shown) > SHOWN:
        shown = f"{shown[:SHOWN]}\n[… {len(shown) - SHOWN:,} more characters: the log has the whole call]"
    question = f"May {pod_name} use {target.tool}: {shown}\n({judgement.reason})"
    return ToolOutcome("not_run", "waits for a person", asks=PermissionAsk(question, target.subject))


def denial(target: Target, judgement: Judgement) -> ToolOutcome:
    content = (
        f"{target.tool} was not run: {judgement.reason}. Do not try to get round this; say what you needed it for."
    )
    return ToolOutcome("denied", f"denied: {one_line(judgement.reason)}", content)


def _by_layer(layer: PermissionRules, target: Target) -> Judgement:
    whose = f"of profile {layer.profile}"
    for text in layer.deny:
        if _catches(parse_rule(text), layer, target):
            return Judgement("deny", f"the rule deny {text} {whose} forbids it")
    for text in layer.ask:
        if _catches(parse_rule(text), layer, target):
            return Judgement("ask", f"the rule ask {text} {whose} wants a person's permission")
    if _opaque(layer, target):
        return Judgement("ask", f"whether a rule {whose} speaks of this command cannot be told for sure")
    if not layer.allow or _allowed(layer, target):
        return Judgement("allow")
    if SUBJECTS.get(target.tool) == "own" and not any(r.tool == target.tool for r in _rules(layer.allow)):
        return Judgement("allow")
    return Judgement("ask", f"no rule {whose} allows it")


def _catches(rule: Rule, layer: PermissionRules, target: Target) -> bool:
    """Whether a rule that denies or asks speaks of it, or might."""
    if not rule.names(target.tool):
        return False
    if rule.pattern is None:
        return True
    match SUBJECTS.get(target.tool):
        case "path":
            return PathPattern(rule.pattern, layer.root, strict=False).covers(target.value)
        case "tree":
            return PathPattern(rule.pattern, layer.root, strict=False).touches(target.value)
        case "command":
            return mentioned(rule.pattern, target.value)
        case "profile":
            return matches_name(rule.pattern.casefold(), target.value.casefold())
        case _:
            return True


def _allowed(layer: PermissionRules, target: Target) -> bool:
    rules = [rule for rule in _rules(layer.allow) if rule.names(target.tool)]
    if any(rule.pattern is None for rule in rules):
        return True
    patterns = [rule.pattern for rule in rules if rule.pattern is not None]
    match SUBJECTS.get(target.tool):
        case "path":
            return any(PathPattern(p, layer.root, strict=True).covers(target.value) for p in patterns)
        case "tree":
            return any(PathPattern(p, layer.root, strict=True).covers_tree(target.value) for p in patterns)
        case "command":
            return covered(patterns, target.value)
        case "profile":
            return any(matches_name(p, target.value) for p in patterns)
        case _:
            return False


def _opaque(layer: PermissionRules, target: Target) -> bool:
    """Whether a command hides what it runs, where a rule depends on what it runs."""
    if SUBJECTS.get(target.tool) != "command" or readable(target.value):
        return False
    return any(r.names(target.tool) and r.pattern is not None for r in _rules((*layer.deny, *layer.ask)))


def _rules(texts: Iterable[str]) -> list[Rule]:
    return [parse_rule(text) for text in texts]
