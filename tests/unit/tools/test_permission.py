"""G04: rules are matched with what a call would really touch; unsure never means allow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from actors.protocol.permissions import SUBJECTS, PermissionRules, parse_rule
from actors.protocol.tools import ASKING_TOOLS, CHILD_TOOLS, FILE_TOOLS, PLANNING_TOOLS
from actors.tools.permission import Permissions, Target, judge, target_of
from actors.tools.registry import ToolSetup, build_toolbox
from tests.support.fake_children import FakeChildren
from tests.support.tool_calls import Bench, told

NOBODY: frozenset[str] = frozenset()


def ruled(bench: Bench, *more: PermissionRules, **rules: object) -> Bench:
    """The bench with these rules in force."""
    own = PermissionRules("p", str(bench.workspace), **rules)  # type: ignore[arg-type]
    permissions = Permissions((own, *more), "p")
    names = (*FILE_TOOLS, *CHILD_TOOLS, *ASKING_TOOLS)
    bench.toolbox = build_toolbox(names, FakeChildren(), bench.guard, ToolSetup(permissions=permissions))
    return bench


def decide(root: Path, tool: str, value: str, **rules: Sequence[str]) -> str:
    layer = PermissionRules("p", str(root), **{k: tuple(v) for k, v in rules.items()})  # type: ignore[arg-type]
    return judge((layer,), Target(tool, value), NOBODY).decision


# --- paths ---


async def test_G04_a_deny_rule_is_matched_with_the_resolved_path(bench: Bench) -> None:
    bench.write("secrets/key.txt", "k")
    bench.write("open.txt", "o")
    (bench.workspace / "door").symlink_to("secrets")
    (bench.workspace / "file").symlink_to("secrets/key.txt")
    ruled(bench, deny=("Read(secrets/**)",))
    paths = [
        "secrets/key.txt",
        "./secrets//key.txt",
        "sub/../secrets/key.txt",
        "secrets/../secrets/key.txt",
        "door/key.txt",
        "door/../secrets/key.txt",
        "file",
        str(bench.workspace / "secrets" / "key.txt"),
    ]
    for path in paths:
        outcome = await bench.call("Read", path=path)
        assert outcome.status == "denied", path
        assert "deny Read(secrets/**)" in told(outcome)
    assert (await bench.call("Read", path="open.txt")).status == "ok"


async def test_G04_extra_fields_hide_nothing_and_run_nothing(bench: Bench) -> None:
    bench.write("secrets/key.txt", "k")
    ruled(bench, deny=("Read(secrets/**)",))
    for more in ({"file_path": "open.txt"}, {"Path": "open.txt"}):
        outcome = await bench.call("Read", path="secrets/key.txt", **more)
        assert outcome.status == "error"
        assert "unknown argument" in told(outcome)


def test_G04_letter_case_and_unicode_form_escape_no_deny_and_win_no_allow(tmp_path: Path) -> None:
    for name in ("SECRETS/key", "Secrets/KEY"):
        assert decide(tmp_path, "Read", f"{tmp_path}/{name}", deny=["Read(secrets/**)"]) == "deny"
        assert decide(tmp_path, "Read", f"{tmp_path}/{name}", allow=["Read(secrets/**)"]) == "ask"
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert decide(tmp_path, "Write", f"{tmp_path}/{decomposed}", deny=[f"Write({composed})"]) == "deny"
    assert decide(tmp_path, "Write", f"{tmp_path}/{decomposed}", allow=[f"Write({composed})"]) == "ask"


PATHS = [
    ("a", "a", True),
    ("a", "a/b/c", True),  # a pattern covers what is below
    ("a", "ab", False),
    ("a", "x/a", False),
    ("**/a", "a", True),
    ("**/a", "x/y/a", True),
    ("**/*.env", "x/y/.env", True),
    ("*.env", "x/.env", False),
    ("a/**", "a/b", True),
    ("a/**", "a/b/c", True),
    ("a/**", "a", False),
    ("a/**/z", "a/z", True),
    ("a/**/z", "a/b/c/z/more", True),
    ("a/**/z", "a/b", False),
    ("*", "anything/below", True),
    ("[ab].txt", "b.txt", True),
    ("app/[id]/**", "app/[id]/page", True),
    ("app/[id]", "app/i", True),
    ("[ab].txt", "c.txt", False),
    ("./a/../b", "b", True),
    ("..", "a", True),
]


@pytest.mark.parametrize(("pattern", "path", "matches"), PATHS)
def test_path_patterns(tmp_path: Path, pattern: str, path: str, matches: bool) -> None:
    found = decide(tmp_path, "Write", f"{tmp_path}/{path}", deny=[f"Write({pattern})"])
    assert found == ("deny" if matches else "allow")
    assert decide(tmp_path, "Write", f"{tmp_path}/{path}", allow=[f"Write({pattern})"]) == (
        "allow" if matches else "ask"
    )


def test_a_rule_about_a_link_is_one_about_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    real = os.path.realpath(tmp_path / "real" / "f")
    assert decide(tmp_path, "Read", real, deny=["Read(link/**)"]) == "deny"
    assert decide(tmp_path, "Read", real, allow=["Read(link/**)"]) == "allow"


def test_absolute_patterns_are_what_they_say(tmp_path: Path) -> None:
    assert decide(tmp_path / "elsewhere", "Read", f"{tmp_path}/a", deny=[f"Read({tmp_path}/a)"]) == "deny"


@pytest.mark.parametrize("tool", ["Grep", "Glob"])
async def test_a_search_of_a_folder_with_forbidden_parts_is_denied(bench: Bench, tool: str) -> None:
    bench.write("secrets/key.txt", "needle")
    bench.write("src/a.txt", "needle")
    ruled(bench, deny=(f"{tool}(secrets/**)",))
    for path in (None, ".", "secrets", "src/.."):
        given = {} if path is None else {"path": path}
        assert (await bench.call(tool, pattern="*" if tool == "Glob" else "needle", **given)).status == "denied", path
    assert (await bench.call(tool, pattern="*" if tool == "Glob" else "needle", path="src")).status == "ok"


@pytest.mark.parametrize("tool", ["Grep", "Glob"])
async def test_G04_a_search_follows_no_link_out_of_the_folder_that_was_judged(bench: Bench, tool: str) -> None:
    bench.write("secrets/key.txt", "needle")
    bench.write("src/a.txt", "needle")
    (bench.workspace / "src" / "key").symlink_to("../secrets/key.txt")
    (bench.workspace / "src" / "same").symlink_to("a.txt")
    arguments = {"pattern": "*" if tool == "Glob" else "needle", "path": "src"}
    assert "key.txt" in told(await bench.call(tool, **arguments))
    for rules in ({"deny": (f"{tool}(secrets/**)",)}, {"allow": (f"{tool}(src/**)",)}):
        outcome = await ruled(bench, **rules).call(tool, **arguments)
        assert outcome.status == "ok"
        assert told(outcome).count("a.txt") == 2
        assert "key" not in told(outcome)


def test_a_search_is_allowed_where_everything_below_is(tmp_path: Path) -> None:
    def grep(folder: str, pattern: str) -> str:
        return decide(tmp_path, "Grep", f"{tmp_path}/{folder}".rstrip("/"), allow=[f"Grep({pattern})"])

    assert [grep("src", p) for p in ("src", "src/**", "src/*", "**")] == ["allow"] * 4
    assert [grep("src", p) for p in ("src/*.py", "src/sub/**", "lib")] == ["ask"] * 3
    assert grep("", "src/**") == "ask"


async def test_G04_a_link_changed_between_judgement_and_use_is_refused(bench: Bench) -> None:
    bench.write("open.txt", "o")
    bench.write("secret.txt", "s")
    (bench.workspace / "link").symlink_to("open.txt")
    bench.context = replace(bench.context, judged=str(bench.workspace / "open.txt"))
    (bench.workspace / "link").unlink()
    (bench.workspace / "link").symlink_to("secret.txt")
    outcome = await bench.call("Read", path="link")
    assert outcome.status == "denied"
    assert "leads elsewhere" in told(outcome)


# --- which rule decides ---


def test_without_rules_everything_in_scope_is_allowed_and_deny_beats_ask_beats_allow(tmp_path: Path) -> None:
    path = f"{tmp_path}/a"
    assert judge((), Target("Write", path), NOBODY).decision == "allow"
    assert decide(tmp_path, "Write", path, allow=["Write"], ask=["Write(a)"]) == "ask"
    assert decide(tmp_path, "Write", path, allow=["Write"], ask=["Write"], deny=["Write(a)"]) == "deny"
    assert decide(tmp_path, "Write", f"{tmp_path}/b", allow=["Write"], deny=["Write(a)"]) == "allow"


def test_where_something_is_allowed_by_a_rule_the_rest_is_asked_about(tmp_path: Path) -> None:
    assert decide(tmp_path, "Write", f"{tmp_path}/a", allow=["Read"]) == "ask"
    assert decide(tmp_path, "Shell", "ls", allow=["Read"]) == "ask"
    assert decide(tmp_path, "Write", f"{tmp_path}/a", deny=["Read"]) == "allow"
    assert decide(tmp_path, "clarify", "{}", allow=["Read"]) == "allow"  # touches nothing but the session
    assert decide(tmp_path, "clarify", "{}", ask=["clarify"]) == "ask"
    assert decide(tmp_path, "clarify", "{}", deny=["*"]) == "allow"
    assert decide(tmp_path, "StopPod", "{}", deny=["*"]) == "deny"
    assert decide(tmp_path, "Edit", f"{tmp_path}/.env", deny=["*(.env)"]) == "deny"
    assert decide(tmp_path, "Shell", "cat .env", deny=["*(.env)"]) == "allow"  # a path rule speaks of file tools


def test_the_strictest_layer_decides(tmp_path: Path) -> None:
    target = Target("Shell", "ls")
    own = PermissionRules("child", str(tmp_path), allow=("Shell",), bypass=True)
    above = PermissionRules("parent", str(tmp_path), ask=("Shell",))
    assert judge((own,), target, NOBODY).decision == "allow"
    found = judge((own, above), target, NOBODY)
    assert (found.decision, found.reason) == ("ask", "the rule ask Shell of profile parent wants a person's permission")
    forbids = PermissionRules("top", str(tmp_path), deny=("Shell",))
    assert judge((own, above, forbids), target, frozenset({"Shell ls"})).decision == "deny"


def test_bypass_and_away_are_two_settings(tmp_path: Path) -> None:
    target = Target("Shell", "ls")
    rules = PermissionRules("p", str(tmp_path), ask=("Shell",), deny=("Shell(rm *)",))
    assert judge((replace(rules, bypass=True),), target, NOBODY).decision == "allow"
    assert judge((replace(rules, bypass=True),), Target("Shell", "rm x"), NOBODY).decision == "deny"
    away = judge((replace(rules, away=True),), target, NOBODY)
    assert (away.decision, away.reason.endswith("nobody is there to be asked")) == ("deny", True)


@pytest.mark.parametrize(
    ("granted", "asked", "allowed"),
    [
        ("Write {ws}/a.txt", "a.txt", True),
        ("Write {ws}/a.txt", "b.txt", False),
        ("Write {ws}/a.txt", "a.txt/b", False),
        ("Edit {ws}/a.txt", "a.txt", False),
        ("Write {ws}", "a.txt", False),
    ],
)
def test_a_grant_covers_the_very_thing_and_no_more(tmp_path: Path, granted: str, asked: str, allowed: bool) -> None:
    rules = PermissionRules("p", str(tmp_path), ask=("Write", "Edit"))
    grants = frozenset({granted.format(ws=tmp_path)})
    found = judge((rules,), Target("Write", f"{tmp_path}/{asked}"), grants).decision
    assert found == ("allow" if allowed else "ask")


def test_a_long_command_is_granted_by_all_of_it() -> None:
    one, other = Target("Shell", "x" * 5_000 + "a"), Target("Shell", "x" * 5_000 + "b")
    assert one.subject != other.subject
    assert len(one.subject) < 300


def test_the_profile_of_a_child_is_what_a_rule_about_spawning_speaks_of(bench: Bench) -> None:
    assert target_of("SpawnPod", {"task": "t"}, bench.context, "mine").value == "mine"
    assert target_of("SpawnPod", {"task": "t", "profile": "bold"}, bench.context, "mine").value == "bold"
    assert decide(bench.workspace, "SpawnPod", "bold", deny=["SpawnPod(b*)"]) == "deny"
    assert decide(bench.workspace, "SpawnPod", "mine", deny=["SpawnPod(b*)"]) == "allow"


# --- at the toolbox ---


async def test_an_ask_runs_nothing_and_says_what_would_really_be_touched(bench: Bench) -> None:
    bench.write("notes/a.txt", "old")
    (bench.workspace / "short").symlink_to("notes")
    ruled(bench, ask=("Write(notes/**)",))
    outcome = await bench.call("Write", path="short/b.txt", content="new")
    assert outcome.asks is not None
    real = str(bench.workspace / "notes" / "b.txt")
    assert outcome.asks.subject == f"Write {real}"
    assert outcome.asks.question.startswith(f"May root use Write: {real}\n(the rule ask Write(notes/**) of profile p")
    assert os.listdir(bench.workspace / "notes") == ["a.txt"]


async def test_a_permitted_call_runs_and_one_that_leads_elsewhere_by_then_does_not(bench: Bench) -> None:
    bench.write("notes/a.txt", "old")
    (bench.workspace / "other").mkdir()
    (bench.workspace / "short").symlink_to("notes")
    ruled(bench, ask=("Write",))
    plain = bench.context
    bench.context = replace(plain, permitted=f"Write {bench.workspace}/notes/b.txt")
    assert (await bench.call("Write", path="short/b.txt", content="new")).status == "ok"
    (bench.workspace / "short").unlink()
    (bench.workspace / "short").symlink_to("other")
    bench.context = replace(plain, permitted=f"Write {bench.workspace}/notes/c.txt")
    outcome = await bench.call("Write", path="short/c.txt", content="new")
    assert (outcome.status, outcome.asks) == ("denied", None)
    assert "is not what was allowed" in told(outcome)
    assert not (bench.workspace / "other" / "c.txt").exists()


async def test_a_grant_of_the_session_runs_without_asking(bench: Bench) -> None:
    ruled(bench, ask=("Write",))
    bench.context = replace(bench.context, grants=frozenset({f"Write {bench.workspace}/a.txt"}))
    assert (await bench.call("Write", path="./a.txt", content="x")).status == "ok"
    assert (await bench.call("Write", path="b.txt", content="x")).asks is not None


async def test_M05_a_denial_is_a_result_with_the_reason_and_arguments_come_first(bench: Bench) -> None:
    ruled(bench, deny=("Shell",), ask=("Write",))
    outcome = await bench.call("Shell", command="ls")
    assert (outcome.status, outcome.asks) == ("denied", None)
    assert told(outcome).startswith("Shell was not run: the rule deny Shell of profile p forbids it.")
    assert (await bench.call("Write", path=7, content="x")).status == "error"  # nobody is asked about nonsense
    assert (await bench.call("Write", path="a\0b", content="x")).status == "error"


def test_every_tool_can_be_named_by_a_rule() -> None:
    assert set(SUBJECTS) == {*FILE_TOOLS, *CHILD_TOOLS, *ASKING_TOOLS, *PLANNING_TOOLS}
    for tool in SUBJECTS:
        assert str(parse_rule(f" {tool} ")) == tool
