"""Glob and Grep."""

import re
import time
from pathlib import Path

import pytest

from actors.tools.limits import ToolLimits
from actors.tools.search_worker import excerpt, glob_regex
from tests.support.tool_calls import Bench, told


@pytest.mark.parametrize(
    ("pattern", "matches", "not_matches"),
    [
        ("*.py", ["a.py", ".py"], ["b/a.py", "a.pyc"]),
        ("**/*.py", ["a.py", "b/a.py", "b/c/a.py"], ["a.txt"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "srcs/a"]),
        ("a?c", ["abc", "aあc"], ["a/c", "ac"]),
        ("[!a]*.{ts,tsx}", ["b.ts", "b.tsx"], ["a.ts", "b.js"]),
        ("a+b(c)|", ["a+b(c)|"], ["aab"]),
        ("[a", ["[a"], ["a"]),
        ("{a", ["{a"], ["a"]),
        ("日本*", ["日本語.txt"], ["日.txt"]),
    ],
)
def test_glob_patterns(pattern: str, matches: list[str], not_matches: list[str]) -> None:
    regex = glob_regex(pattern)
    assert [m for m in matches if not regex.fullmatch(m)] == []
    assert [m for m in not_matches if regex.fullmatch(m)] == []


async def test_glob_lists_in_a_fixed_order_and_leaves_out_caches(bench: Bench) -> None:
    for path in ("b.py", "a/z.py", "a/y/x.py", "B.py", ".git/h.py", "a/node_modules/m.py", "日本/語.py"):
        bench.write(path, "x")
    assert told(await bench.call("Glob", pattern="**/*.py")).split("\n") == [
        "B.py", "b.py", "a/z.py", "a/y/x.py", "日本/語.py",
    ]  # fmt: skip
    assert told(await bench.call("Glob", pattern="*")).split("\n") == ["B.py", "a/", "b.py", "日本/"]
    assert told(await bench.call("Glob", pattern="*", path="a")).split("\n") == ["a/y/", "a/z.py"]
    assert told(await bench.call("Glob", pattern="*.py", path=".git")) == ".git/h.py"
    assert told(await bench.call("Glob", pattern=".git/*")) == ".git/h.py"
    nothing = await bench.call("Glob", pattern="*.rs")
    assert (nothing.status, told(nothing)) == ("ok", "[nothing matches]")


async def test_glob_is_bounded_and_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path, limits=ToolLimits(search_results=3))
    for i in range(5):
        bench.write(f"f{i}", "")
    assert told(await bench.call("Glob", pattern="*")) == "f0\nf1\nf2\n[3 of 5 paths are shown]"


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("Glob", {"pattern": "/etc/*"}, "a pattern is relative"),
        ("Glob", {"pattern": "../*"}, "holds no `..`"),
        ("Glob", {"pattern": "*", "path": "nowhere"}, "`nowhere` does not exist"),
        ("Glob", {"pattern": "[z-a]"}, "pattern cannot be used"),
        ("Grep", {"pattern": "(a"}, "pattern cannot be used"),
        ("Grep", {"pattern": "a", "path": "nowhere"}, "`nowhere` does not exist"),
        ("Grep", {"pattern": "a", "context": 99}, "`context`"),
    ],
)
async def test_searches_that_cannot_be_done(bench: Bench, name: str, arguments: dict[str, str], says: str) -> None:
    outcome = await bench.call(name, **arguments)
    assert outcome.status == "error"
    assert says in told(outcome)


async def test_grep_shows_lines_with_their_place(bench: Bench) -> None:
    bench.write("a.txt", "Alpha\nbeta\ngamma\ndelta\nalpha\n")
    bench.write("sub/b.py", "x = 'alpha'\r\n")
    bench.write("sjis.txt", "東京のalpha\n".encode("cp932"))
    bench.write("bin", b"alpha\0")
    outcome = await bench.call("Grep", pattern="alpha")
    assert told(outcome).split("\n") == [
        "a.txt:5:alpha", "sjis.txt:1:東京のalpha", "sub/b.py:1:x = 'alpha'",
        "[1 binary or very large files were skipped]",
    ]  # fmt: skip
    assert outcome.summary == "3 lines match alpha"
    assert told(await bench.call("Grep", pattern="ALPHA", glob="*.py", ignore_case=True)) == "sub/b.py:1:x = 'alpha'"
    assert told(await bench.call("Grep", pattern="alpha", glob="sub/*")) == "sub/b.py:1:x = 'alpha'"
    assert told(await bench.call("Grep", pattern="東京", path="sjis.txt")) == "sjis.txt:1:東京のalpha"
    context = told(await bench.call("Grep", pattern="(?i)alpha", path="a.txt", context=1))
    assert context == "a.txt:1:Alpha\na.txt-2-beta\n--\na.txt-4-delta\na.txt:5:alpha"


async def test_grep_is_bounded_and_says_so(bench: Bench) -> None:
    bench.write("many", "x\n" * 5_000)
    bench.write("zwide", ("x" * 10_000 + "\n") * 3)
    few = told(await bench.call("Grep", pattern="x", max_results=2))
    assert few == "many:1:x\nmany:2:x\n[2 of 5,003 matches are shown: narrow the search for the rest]"
    wide = told(await bench.call("Grep", pattern="x", path="zwide"))
    assert len(wide) < 3 * 600
    assert "[10,000 characters]" in wide
    bench.write("all/a", ("y" * 400 + "\n") * 1_000)
    assert len(told(await bench.call("Grep", pattern="y", path="all", max_results=2_000))) < 32_500


async def test_a_pattern_that_never_ends_is_ended_and_blocks_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, limits=ToolLimits(search_timeout=0.5))
    bench.write("a", "a" * 60 + "b")
    started = time.monotonic()
    outcome = await bench.call("Grep", pattern="(a+)+$")
    assert outcome.status == "error"
    assert "took more than 0.5 s" in told(outcome)
    assert time.monotonic() - started < 5


def test_an_excerpt_of_a_long_line_shows_the_match() -> None:
    line = "x" * 2_000 + "needle" + "y" * 2_000
    match = re.search("needle", line)
    assert match is not None
    assert "needle" in excerpt(line, match.start())
    assert len(excerpt(line, match.start())) < 560
