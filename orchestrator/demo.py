"""The demo's job: a census of a folder by a parent Pod and its children, as a script for the scripted model.

The script fixes only who does what. Every figure comes from a tool that a Pod runs in the folder: each child's text is
what its tool found, and the parent's report is what it read of its children.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.protocol.ids import NAME_LIMIT, name_problem

PARENT = "census"
MODEL = "scripted"
LEAST_CHILDREN = 6
_FOLDERS = 4
_WALK_LIMIT = 20_000
_SECONDS = 15
_PACKED = 4
_LEFT_OUT = (".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".tox", "target", "*_cache", ".cache")
_LANGUAGES = (
    "py Python pyi Python js JavaScript mjs JavaScript ts TypeScript tsx TypeScript c C h C cc C++ cpp C++ hpp C++ "
    "rs Rust go Go java Java kt Kotlin rb Ruby php PHP cs C# swift Swift scala Scala sh Shell bash Shell lua Lua "
    "md Markdown rst reStructuredText txt Text toml TOML yaml YAML yml YAML json JSON jsonl JSON-lines xml XML "
    "html HTML css CSS sql SQL csv CSV ini INI cfg INI lock Lock ipynb Notebook tex TeX"
)

# Counts `wc -lc` lines (`<lines> <bytes> ./path`) by language. Paths may hold spaces; other lines are not ours.
_COUNT = r"""
BEGIN { n = split(names, w, " "); for (i = 1; i < n; i += 2) lang[w[i]] = w[i + 1] }
$1 ~ /^[0-9]+$/ && $2 ~ /^[0-9]+$/ && $3 ~ /^\.\// {
  name = $0; sub(/.*\//, "", name); ext = tolower(name)
  if (sub(/^.+\./, "", ext) == 0) kind = "(no extension)"
  else kind = (ext in lang) ? lang[ext] : "." ext
  files[kind]++; lines[kind] += $1; bytes[kind] += $2; f++; l += $1; b += $2
}
END {
  printf "  %-18s %7d files %9d lines %9.1f KB\n", "all", f, l, b / 1000; fflush()
  for (k in files)
    printf "%d\t  %-18s %7d files %9d lines %9.1f KB\n", bytes[k], substr(k, 1, 18), files[k], lines[k], \
      bytes[k] / 1000 | "sort -rn | cut -f2- | head -n 6"
}
""".strip()


@dataclass(frozen=True, slots=True)
class Job:
    """One child: its name, its task in words, and the tool call that does it."""

    name: str
    task: str
    tool: str
    arguments: dict[str, Any]


def jobs_for(folder: Path) -> list[Job]:
    """At least six jobs: the whole folder from several sides, and its largest folders one by one."""
    jobs = [
        Job("whole folder", "Count files, lines and bytes by language.", "Shell", _shell(_census("."))),
        Job("largest files", "Name the eight largest files.", "Shell", _shell(_largest("-c", "KB", 1000))),
        Job("longest files", "Name the eight files with the most lines.", "Shell", _shell(_largest("-l", "lines", 1))),
        Job(
            "open marks",
            "Find what is marked as still to do.",
            "Grep",
            {"pattern": r"\b(T[O]DO|FI[X]ME)\b", "max_results": 8},
        ),
    ]
    jobs += _folder_jobs(folder, {job.name for job in jobs})
    fillers = [
        Job("read me first", "Find the files to read first.", "Glob", {"pattern": "**/{README,CONTRIBUTING,LICENSE}*"}),
        Job("depth", "Say how many folders there are and how deep they go.", "Shell", _shell(_depth())),
    ]
    return jobs + fillers[: max(0, LEAST_CHILDREN - len(jobs))]


def script_for(folder: Path, jobs: Sequence[Job]) -> str:
    """The script: JSON lines for the scripted model."""
    names = [job.name for job in jobs]
    spawns = [{"name": "SpawnPod", "arguments": {"task": job.task, "name": job.name}} for job in jobs]
    reads = [{"name": "ReadPodOutput", "arguments": {"pod": name, "after": 0}} for name in names]
    shown = printable(folder.name or str(folder))
    lines: list[dict[str, Any]] = [
        _line(PARENT, 1, text=f"I take a census of {shown} with {len(jobs)} children.", tool_calls=spawns),
        _line(PARENT, 2, tool_calls=[{"name": "WaitForPods", "arguments": {"pods": names, "mode": "all"}}]),
        _line(PARENT, 3, tool_calls=reads),
        _line(PARENT, 4, text=f"Census of {shown}", text_from="tool_results"),
        {"match": {"pod": PARENT}, "text": "Noted.", "repeat": True},
    ]
    for job in jobs:
        lines.append(_line(job.name, 1, tool_calls=[{"name": job.tool, "arguments": job.arguments}]))
        lines.append({**_line(job.name, 2, text=f"{job.name}:", text_from="tool_results")})
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def settings_for(script_name: str, folder: Path) -> str:
    """`polypod.toml` of the demo's home."""
    return (
        "# Written by `polypod demo`.\n"
        f'[models.{MODEL}]\nprovider = "scripted"\nscript = {json.dumps(script_name)}\n\n'
        f"[profiles.default]\nmodel = {json.dumps(MODEL)}\n"
        f"workspace = {json.dumps(str(folder), ensure_ascii=False)}\n\n"
        "# Four to a process, to be quick on a small machine; without this line each Pod has its own.\n"
        f"[directory]\npods_per_actor = {_PACKED}\n"
    )


def task_for(folder: Path) -> str:
    """The same job in words, for `demo --live`."""
    return (
        "Take a census of the current folder. Start at least six child Pods that work side by side: one for each of "
        "its largest folders, and others for the whole folder (files, lines and bytes by language; the largest files; "
        "the longest files; what is marked as still to do). Each uses real tools (Shell, Glob, Grep, Read) and reports "
        "figures. Change nothing. Wait for all of them, then write one short report from what they found about "
        f"{printable(folder.name or str(folder))}."
    )


def printable(name: str) -> str:
    """A file name as text: undecodable bytes and control characters are replaced."""
    text = name.encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c.isprintable() else "?" for c in text)


def _line(pod: str, request: int, **rest: Any) -> dict[str, Any]:
    return {"match": {"pod": pod, "request": request}, **rest}


def _folder_jobs(folder: Path, taken: set[str]) -> Iterator[Job]:
    for path in _largest_folders(folder):
        name = _pod_name(path.name, taken)
        taken.add(name)
        task = f"Count files, lines and bytes by language in {printable(path.name)}."
        yield Job(name, task, "Shell", _shell(_census(f"./{path.name}")))


def _largest_folders(folder: Path) -> list[Path]:
    """Up to four folders right below, those with the most files first."""
    try:
        below = [Path(e.path) for e in os.scandir(folder) if e.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    sized = [(-_files_in(p), p.name, p) for p in below if not p.name.startswith(".") and _is_counted(p)]
    return [p for size, _, p in sorted(sized)[:_FOLDERS] if size < 0]


def _is_counted(path: Path) -> bool:
    """Not left out, and with a name that can be written in a script."""
    try:
        path.name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return not any(path.match(pattern) for pattern in _LEFT_OUT)


def _files_in(folder: Path) -> int:
    """About how many files are below; the count ends at a limit."""
    number = 0
    for place, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if not any(Path(place, f).match(p) for p in _LEFT_OUT)]
        number += len(files)
        if number + len(folders) > _WALK_LIMIT:
            break
    return number


def _pod_name(text: str, taken: set[str]) -> str:
    kept = "".join(c if c.isalnum() or c in "_.- " else "-" for c in text).strip("-_. ")[: NAME_LIMIT - 4]
    kept = kept.rstrip(" .")
    if name_problem(kept) is not None or kept == PARENT:
        kept = "folder"
    name, number = kept, 1
    while name in taken:
        number += 1
        name = f"{kept} {number}"
    return name


def _shell(command: str) -> dict[str, Any]:
    return {"command": command, "timeout": _SECONDS}


def _find(place: str) -> str:
    """Files up to 10 MB below `place`, without what others made."""
    pruned = " -o ".join(f"-name {shlex.quote(name)}" for name in _LEFT_OUT)
    return f"find {shlex.quote(place)} -type d \\( {pruned} \\) -prune -o -type f"


def _census(place: str) -> str:
    count = f"awk -v names={shlex.quote(_LANGUAGES)} {shlex.quote(_COUNT)}"
    return f"{_find(place)} -size -20480 -exec wc -lc {{}} + 2>/dev/null | {count}"


def _largest(what: str, unit: str, divisor: int) -> str:
    size = " -size -20480" if what == "-l" else ""
    rows = "$1 ~ /^[0-9]+$/ && $2 ~ /^\\.\\//"
    number = "%10.1f" if divisor > 1 else "%10d"
    shown = f'{{ n = $1; sub(/^ *[0-9]+ \\.\\//, ""); printf "  {number} {unit}  %s\\n", n / {divisor}, $0 }}'
    end = 'END { if (NR == 0) print "  no files" }'
    return (
        f"{_find('.')}{size} -exec wc {what} {{}} + 2>/dev/null | awk {shlex.quote(rows)} | sort -rn | head -n 8 | "
        f"awk {shlex.quote(shown + ' ' + end)}"
    )


def _depth() -> str:
    program = (
        '{ d = gsub(/\\//, "/"); if (d > m) { m = d; p = $0 } } END { printf "  %d folders, %d deep\\n", NR - 1, m }'
    )
    pruned = " -o ".join(f"-name {shlex.quote(name)}" for name in _LEFT_OUT)
    return f"find . -type d \\( {pruned} \\) -prune -o -type d -print 2>/dev/null | awk {shlex.quote(program)}"
