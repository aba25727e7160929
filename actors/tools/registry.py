"""The toolbox of a Pod: the named tools, and the one place where every call gets exactly one answer."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from actors.protocol.tools import Children, Tool, ToolArgumentError, Toolbox, ToolContext, ToolGuard, ToolOutcome
from actors.tools.children import child_tools
from actors.tools.clarify import clarify_tool
from actors.tools.edit import edit_tool
from actors.tools.environment import redacted
from actors.tools.files import file_tools
from actors.tools.guard import GuardPool
from actors.tools.limits import ToolLimits
from actors.tools.permission import Permissions
from actors.tools.planning import planning_tools
from actors.tools.search import search_tools
from actors.tools.shell import shell_tool
from actors.tools.spill import bounded
from actors.tools.text import one_line
from actors.tools.typed import ToolRefusal
from session_store.entries import ToolSpec
from session_store.items import ToolCall

_ERROR_TEXT = 2_000
_SLACK = 2_000  # notes that a tool adds to a result that is as long as it may be


class UnknownTools(Exception):
    """Tools that were asked for and cannot be had; `names` are theirs, `known` those that can."""

    def __init__(self, names: tuple[str, ...], known: tuple[str, ...]) -> None:
        super().__init__(f"unknown tools: {', '.join(names)} (known: {', '.join(known)})")
        self.names = names
        self.known = known


@dataclass(frozen=True, slots=True)
class ToolSetup:
    """Tools made elsewhere, the limits of all, and the rules that their calls are judged by."""

    more: tuple[Tool, ...] = ()
    limits: ToolLimits = field(default_factory=ToolLimits)
    permissions: Permissions = field(default_factory=Permissions)


def build_toolbox(
    names: Sequence[str], children: Children | None, guard: GuardPool, setup: ToolSetup | None = None
) -> Toolbox:
    """The toolbox with the tools of these names, in this order. Raises `UnknownTools`.

    `guard` is the Pod's own: `Toolbox.close` closes it. Without `children` there are no child tools.
    """
    setup = setup or ToolSetup()
    tools = [
        *file_tools(setup.limits),
        edit_tool(setup.limits),
        *search_tools(guard, setup.limits),
        shell_tool(guard, setup.limits),
        clarify_tool(),
        *(child_tools(children, setup.limits) if children is not None else ()),
        *planning_tools(setup.limits),
        *setup.more,
    ]
    known = {tool.spec.name: tool for tool in tools}
    missing = tuple(name for name in names if name not in known)
    if missing:
        raise UnknownTools(missing, tuple(known))
    return PodToolbox({name: known[name] for name in names}, guard, setup)


class PodToolbox:
    """A `Toolbox` over a fixed set of tools."""

    def __init__(self, tools: Mapping[str, Tool], guard: ToolGuard, setup: ToolSetup) -> None:
        self._tools = dict(tools)
        self._guard = guard
        self._limits = setup.limits
        self._permissions = setup.permissions

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools.values())

    def idempotent(self, name: str) -> bool:
        tool = self._tools.get(name)
        return tool is not None and tool.idempotent

    def resource(self, call: ToolCall, context: ToolContext) -> str | None:
        tool = self._tools.get(call.name)
        if tool is None or call.problem is not None or call.arguments is None:
            return None
        try:
            return tool.resource(tool.parse(call.arguments), context)
        except (ToolArgumentError, ToolRefusal, OSError):
            return None  # `run` meets the same and tells the model

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutcome:
        try:
            return await self._fitted(await self._answer(call, context), context)
        except Exception as error:  # a tool's defect is the call's error, never the Pod's
            text = redacted(str(error), os.environ)[:_ERROR_TEXT]
            return error_outcome(f"{call.name} failed: {type(error).__name__}: {text}")

    async def close(self) -> None:
        await self._guard.close()

    async def _answer(self, call: ToolCall, context: ToolContext) -> ToolOutcome:
        tool = self._tools.get(call.name)
        if tool is None:
            return error_outcome(_unknown(call.name, self._tools))
        if call.problem is not None or call.arguments is None:
            why = call.problem or "there were none"
            return error_outcome(
                f"{call.name} was not run: its arguments were not a JSON object ({why}). Send them again, whole."
            )
        try:
            arguments = tool.parse(call.arguments)
            checked = await self._permissions.check(call, context)
            return checked if isinstance(checked, ToolOutcome) else await tool.run(arguments, checked)
        except ToolArgumentError as error:
            return error_outcome(f"{call.name} was not run: {error}")
        except ToolRefusal as refusal:
            return replace(error_outcome(str(refusal)), status=refusal.status)

    async def _fitted(self, outcome: ToolOutcome, context: ToolContext) -> ToolOutcome:
        """No result is larger than it may be, whoever made it; text is always text that can be stored."""
        summary = one_line(_storable(outcome.summary))
        content = outcome.content
        if content is not None:
            content = _storable(content)
            if len(content) > self._limits.result + _SLACK:
                content = await bounded(content, self._limits.result, context)
        return replace(outcome, summary=summary, content=content)


def error_outcome(text: str) -> ToolOutcome:
    """An error: its first words are the summary, the text is what the model reads."""
    return ToolOutcome(status="error", summary=one_line(text), content=text)


def _unknown(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"There is no tool `{one_line(name, 64)}`.{hint} The tools are: {', '.join(names) or 'none'}."


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
