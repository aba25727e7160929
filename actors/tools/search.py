"""Glob and Grep. The search itself is a process of its own (see `search_worker`)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import Field

from actors.protocol.tools import Tool, ToolContext, ToolOutcome
from actors.tools.guard import Ended, GuardPool, NotStarted, Order, PoolClosed
from actors.tools.limits import ToolLimits
from actors.tools.offload import StopSign, in_thread
from actors.tools.paths import stat_file, within
from actors.tools.scope import Reach
from actors.tools.text import one_line, printable
from actors.tools.typed import Arguments, ToolRefusal, typed_tool
from session_store.items import Json

_PACKAGES = str(Path(__file__).resolve().parents[2])
_START = "import sys; sys.path.append(sys.argv.pop(1)); from actors.tools.search_worker import main; main(sys.argv[1:])"
_LEFT_OUT = "Folders of version control, caches and packages (.git, node_modules, .venv, …) are left out unless named."


class Glob(Arguments):
    says = (
        "List files and folders (these end in `/`) whose path matches a pattern: `*` and `?` within a name, `**` "
        "over any number of folders, `[abc]`, `{a,b}`. `*.py` matches only in `path` itself, `**/*.py` also below. "
        f"Sorted by name, folder by folder. {_LEFT_OUT}"
    )
    pattern: str = Field(min_length=1, max_length=2_000, description="Pattern, relative to `path`.")
    path: str | None = Field(default=None, description="Folder to look in (default: the workspace).")


class Grep(Arguments):
    says = (
        "Search the lines of text files with a regular expression (Python's `re`). Matches come as `path:line:text`, "
        f"lines around them as `path-line-text`. {_LEFT_OUT} Binary files are skipped."
    )
    pattern: str = Field(min_length=1, max_length=10_000, description="Regular expression, matched within one line.")
    path: str | None = Field(default=None, description="File or folder to search (default: the workspace).")
    glob: str | None = Field(
        default=None,
        min_length=1,
        max_length=2_000,
        description="Search only files that match: a name pattern such as `*.py`, or with `/` one over the whole path.",
    )
    ignore_case: bool = Field(default=False, description="Upper and lower case count as the same.")
    context: int = Field(default=0, ge=0, le=20, description="Lines to show before and after each match.")
    max_results: int = Field(default=200, ge=1, le=2_000, description="Matches to show.")


def search_tools(guard: GuardPool, limits: ToolLimits) -> tuple[Tool, ...]:
    async def glob(arguments: Glob, context: ToolContext) -> ToolOutcome:
        pattern = _pattern(arguments.pattern)
        query = await in_thread(lambda stop: _place(arguments.path, context, stop))
        query |= {"pattern": pattern, "most": limits.search_results, "names": pattern.split("/")}
        return _globbed(arguments, await _ask(guard, query, context, limits), Reach.of(context))

    async def grep(arguments: Grep, context: ToolContext) -> ToolOutcome:
        named = _pattern(arguments.glob) if arguments.glob else None
        query = await in_thread(lambda stop: _place(arguments.path, context, stop))
        query |= {
            "regex": arguments.pattern,
            "glob": named,
            "ignore_case": arguments.ignore_case,
            "context": arguments.context,
            "most": arguments.max_results,
            "budget": limits.result,
            "names": named.split("/") if named else [],
        }
        return _grepped(arguments, await _ask(guard, query, context, limits), Reach.of(context))

    return (typed_tool(Glob, glob, idempotent=True), typed_tool(Grep, grep, idempotent=True))


def _pattern(pattern: str) -> str:
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ToolRefusal(f"`{printable(pattern)}`: a pattern is relative and holds no `..`; say where with `path`.")
    return pattern.removeprefix("./")


def _place(path: str | None, context: ToolContext, stop: StopSign) -> dict[str, Json]:
    """Where to search. Raises `ToolRefusal`."""
    reach = Reach.of(context)
    base, roots = reach.below(path if path is not None else ".")
    stop.check()
    if stat_file(base) is None:
        raise ToolRefusal(f"`{printable(path or str(context.workspace))}` does not exist.")
    read = (*reach.read, reach.spill) if within(base, reach.spill) else reach.read
    if reach.judged is not None:
        read = roots  # the rules spoke of this folder, not of where links in it lead
    hidden = tuple(folder for folder in reach.hidden if not within(base, reach.spill))
    return {"base": base, "roots": roots, "read": read, "hidden": hidden}


async def _ask(guard: GuardPool, query: dict[str, Json], context: ToolContext, limits: ToolLimits) -> dict[str, Json]:
    """Run the search process. Raises `ToolRefusal` when it does not come to an answer."""
    answer = bytearray()

    async def take(data: bytes) -> None:
        answer.extend(data)

    argv = (sys.executable, "-I", "-S", "-c", _START, _PACKAGES, json.dumps(query))
    order = Order(argv, context.workspace, limits.search_timeout, grace=0.0)
    try:
        ended = await guard.run(order, take)
    except PoolClosed:
        raise ToolRefusal("The search was not run: this Pod is letting go of its tools.") from None
    except NotStarted as error:
        raise ToolRefusal(f"The search could not be started: {error.strerror}.") from None
    if ended.how == "timeout":
        raise ToolRefusal(
            f"The search took more than {limits.search_timeout:g} s: search a smaller folder or use a simpler pattern."
        )
    if ended != Ended("exited", 0):
        raise ToolRefusal(
            f"The search was cut off ({ended.how} {ended.code}). {one_line(answer.decode(errors='replace'))}"
        )
    found: dict[str, Json] = json.loads(answer)
    if "problem" in found:
        raise ToolRefusal(one_line(found["problem"], 500))
    return found


def _globbed(arguments: Glob, found: dict[str, Json], reach: Reach) -> ToolOutcome:
    rows = [_shown(path, reach) for path in found["paths"]]
    summary = f"{found['count']} paths match {one_line(arguments.pattern, 80)}"
    note = [f"[{len(rows):,} of {found['count']:,} paths are shown]"] if len(rows) < found["count"] else []
    return ToolOutcome("ok", summary, "\n".join([*rows, *note]) or "[nothing matches]")


def _grepped(arguments: Grep, found: dict[str, Json], reach: Reach) -> ToolOutcome:
    rows: list[str] = []
    for file in found["files"]:
        path, last = _shown(file["path"], reach), None
        for number, text, is_match in file["rows"]:
            if arguments.context and rows and number - 1 != last:
                rows.append("--")
            mark = ":" if is_match else "-"
            rows.append(f"{path}{mark}{number}{mark}{text}")
            last = number
    summary = f"{found['count']} lines match {one_line(arguments.pattern, 80)}"
    notes = []
    if found["shown"] < found["count"]:
        notes.append(f"[{found['shown']:,} of {found['count']:,} matches are shown: narrow the search for the rest]")
    if found["skipped"]:
        notes.append(f"[{found['skipped']} binary or very large files were skipped]")
    return ToolOutcome("ok", summary, "\n".join([*rows, *notes] if rows else ["[nothing matches]", *notes]))


def _shown(path: str, reach: Reach) -> str:
    shown = reach.shown(path.rstrip("/"))
    return f"{shown}/" if path.endswith("/") else shown
