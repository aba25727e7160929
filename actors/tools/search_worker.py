"""The process that searches: a folder walk, names by pattern, lines by regular expression.

A process of its own, because a bad pattern can keep `re` busy for hours without a pause, and would stop the heartbeat
of a Pod with it. Run by `search` under the guard with one argument, a JSON object; answers one on standard output.
Standard library only, started without site packages.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, TypeAlias

from actors.tools.paths import LinkMet, NotAFile, open_file, within
from actors.tools.text import SAMPLE, detect, printable

Json: TypeAlias = dict[str, Any]

IGNORED = frozenset(
    [
        ".git",
        ".hg",
        ".svn",
        ".jj",
        "node_modules",
        "__pycache__",
        ".venv",
        "venv",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".hypothesis",
        ".ipynb_checkpoints",
        ".DS_Store",
    ]
)
OURS = re.compile(r"\.polypod-[0-9a-f]{12}\.tmp")
LARGEST = 32 * 1024 * 1024
LINE = 500
"""Characters of a line that are shown."""


def main(argv: list[str]) -> None:
    query: Json = json.loads(argv[0])
    try:
        answer = grep(query) if "regex" in query else glob(query)
    except re.error as error:
        answer = {"problem": f"the pattern cannot be used: {error}"}
    except (RecursionError, OverflowError) as error:
        answer = {"problem": f"the pattern cannot be used: {error}"}
    sys.stdout.buffer.write(json.dumps(answer).encode("ascii"))


def glob(query: Json) -> Json:
    """`{"paths": the first `most` that match, "count": how many do}`."""
    wanted = glob_regex(query["pattern"])
    found: list[str] = []
    count = 0
    for path, name, is_folder in walk(query):
        if wanted.fullmatch(name) is not None:
            count += 1
            if len(found) < query["most"]:
                found.append(path + "/" if is_folder else path)
    return {"paths": [printable(path) for path in found], "count": count}


def grep(query: Json) -> Json:
    """`{"files": [{"path", "rows": [[number, text, is_match], …]}], "shown", "count", "skipped"}`.

    At most `most` matches and about `budget` characters are shown; `count` is how many there are.
    """
    wanted = re.compile(query["regex"], re.IGNORECASE if query["ignore_case"] else 0)
    named = glob_regex(query["glob"]) if query["glob"] else None
    deep = query["glob"] is not None and "/" in query["glob"]
    files, shown, count, skipped, budget = [], 0, 0, 0, query["budget"]
    for path, name, is_folder in walk(query):
        if is_folder or (named and named.fullmatch(name if deep else os.path.basename(name)) is None):
            continue
        text = text_of(path)
        if text is None:
            skipped += 1
            continue
        room = query["most"] - shown if budget > 0 else 0
        rows, matches = matching(text, wanted, query["context"], min(room, 1 + budget // 20))
        count += matches
        shown += sum(1 for row in rows if row[2])
        budget -= sum(len(row[1]) + len(name) + 8 for row in rows)
        if rows:
            files.append({"path": printable(path), "rows": rows})
    return {"files": files, "shown": shown, "count": count, "skipped": skipped}


def matching(text: str, wanted: re.Pattern[str], context: int, room: int) -> tuple[list[Any], int]:
    """The rows to show, at most `room` matches with `context` lines around each, and how many matches there are."""
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    hits = [(i, m) for i, line in enumerate(lines) if (m := wanted.search(line.removesuffix("\r")))]
    rows: dict[int, list[Any]] = {}
    for i, _ in hits[: max(room, 0)]:
        for j in range(max(0, i - context), min(len(lines), i + context + 1)):
            rows.setdefault(j, [j + 1, excerpt(lines[j], 0), False])
    for i, match in hits[: max(room, 0)]:
        rows[i] = [i + 1, excerpt(lines[i], match.start()), True]
    return [rows[j] for j in sorted(rows)], len(hits)


def excerpt(line: str, at: int) -> str:
    """A line, or what is around `at` of a long one."""
    line = line.removesuffix("\r")
    if len(line) <= LINE:
        return line
    start = max(0, min(at - LINE // 4, len(line) - LINE))
    end = start + LINE
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''} [{len(line):,} characters]"


def text_of(path: str) -> str | None:
    """A file's text; None for one that is binary, too large, gone, or a link by now."""
    try:
        with os.fdopen(open_file(path), "rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size > LARGEST:
                return None
            data = file.read()
    except (LinkMet, NotAFile, OSError):
        return None
    encoding = detect(data[:SAMPLE])
    return None if encoding is None else data.decode(encoding, "replace")


def walk(query: Json) -> Iterator[tuple[str, str, bool]]:
    """What is below the query's folders, in a fixed order: real path, path relative to `base`, whether a folder.

    No link to a folder is entered; one to a file counts if the file is in reach. Folders of version control, caches
    and the like are left out, unless the search starts in one or the pattern names it.
    """
    named = set(query["names"])
    for root in query["roots"]:
        if os.path.isfile(root):
            yield root, os.path.basename(root), False
        else:
            yield from _below(root, query, named)


def _below(root: str, query: Json, named: set[str]) -> Iterator[tuple[str, str, bool]]:
    pending = [root]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        folders = []
        for entry in inside:
            if (entry.name in IGNORED and entry.name not in named) or OURS.fullmatch(entry.name):
                continue
            real = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
            if not _in_reach(real, query):
                continue
            name = os.path.relpath(entry.path, query["base"])
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
                yield entry.path, name, True
            elif entry.is_file():
                yield real, name, False
        pending.extend(reversed(folders))


def _in_reach(real: str, query: Json) -> bool:
    return any(within(real, root) for root in query["read"]) and not any(within(real, f) for f in query["hidden"])


def glob_regex(pattern: str) -> re.Pattern[str]:
    """A glob over relative paths: `*` and `?` within a name, `**` over folders, `[...]`, `{a,b}`."""
    out, at, depth = [], 0, 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            if pattern.startswith("*", at):
                at += 1
                if pattern.startswith("/", at):
                    at += 1
                    out.append("(?:[^/]+/)*")
                else:
                    out.append(".*")
            else:
                out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (end := pattern.find("]", at + 1)) > 0:
            inner = pattern[at:end].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"(?!/)[{'^' + inner[1:] if inner[0] in '!^' else inner}]")
            at = end + 1
        elif char == "{" and "}" in pattern[at:]:
            depth += 1
            out.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            out.append(")")
        elif char == "," and depth:
            out.append("|")
        else:
            out.append(re.escape(char))
    return re.compile("".join(out) + ")" * depth, re.DOTALL)
