"""How rules meet shell commands: an allow covers every part, a deny is found wherever a command might begin."""

from __future__ import annotations

import pytest

from actors.protocol.permissions import PermissionRules
from actors.tools.permission import Target, judge
from actors.tools.shell_rules import MOST

ALLOW = ("Shell(git status)", "Shell(git log *)", "Shell(ls *)", "Shell(echo *)")
ALLOWED = [
    "git status",
    "  git   status\n",
    "git log",
    "git log -3 --oneline",
    "git status && git log -1",
    "git status; ls",
    "ls | echo x",
    "ls *.py",
    "ls &",
    "git status\nls",
    "echo 'a; rm -rf x && $(boom) `boom` > f # \\ {}'",
    'echo "a; b | c # d"',
]
ASKED = [
    "",
    "git push",
    "git statusx",
    "Git status",
    "git status && git push",
    "git status;git push",
    "git status\ngit push",
    "git status | sh",
    "git status & git push",
    "git status || git push",
    "git status |& git push",
    "ls $(git push)",
    "ls `git push`",
    "ls <(git push)",
    'echo "$(git push)"',
    'echo "`git push`"',
    "echo $HOME",
    "ls > /etc/passwd",
    "ls >> f",
    "ls < f",
    "cat <<EOF\nls\nEOF",
    "(ls)",
    "{ ls; }",
    "ls {a,b}",
    "echo # ' \n git push # '",
    "echo 'open",
    'echo "open',
    "echo a\\\n b",
    "echo \\; git push",
    "echo $'a'",
    "PATH=. git status",
    "if true; then ls; fi",
    "eval ls",
    "env ls",
    "/bin/ls",
    "l? x",
    "ls\x00x",
    "ls\r\ngit push",
    "ls\u2028git push",
    "echo " + "x" * MOST,
]
DENY = ("Shell(rm *)", "Shell(git push)")
DENIED = [
    "rm x",
    "rm",
    "RM x",
    "  rm\t-rf x",
    "ls && rm x",
    "ls;rm x",
    "ls\nrm x",
    "ls|rm",
    "ls & rm x",
    "sudo rm x",
    "FOO=1 rm x",
    "/bin/rm x",
    "xargs rm < list",
    "bash -c 'rm x'",
    'bash -c "ls; rm x"',
    "python -c 'import os; os.system(\"rm x\")'",
    "(rm x)",
    "{ rm x; }",
    "r''m x",
    'r"m" x',
    "r\\m x",
    "$(rm x)",
    "echo `rm x`",
    "git push",
    "git  push --force",
    "cd a && git push",
]
UNSURE = ["$CMD x", "echo $HOME", "`cat f`", "/bin/r? x", "A=1 r* x", 'eval "$(cat f)"', "echo 'open", "x" * (MOST + 1)]
UNSURE += ["r{m,} x", "r{'m',} x", "{git,push}", "git {push,}", "echo {a..c}", "echo a{b,c}", "cat {x,{y,z}}"]
HARMLESS = [
    "echo {} '{a,b}' \"{a..b}\" {a};",
    "git show HEAD@{1}",
    "find . -name x",
    "ls",
    "format x",
    "git pull",
    "charm x",
    "ls > f",
    "(ls)",
    "gitpush",
    "ls *.py",
]


def decide(command: str, **rules: tuple[str, ...]) -> str:
    layer = PermissionRules("p", "/w", **rules)  # type: ignore[arg-type]
    return judge((layer,), Target("Shell", command), frozenset()).decision


@pytest.mark.parametrize("command", ALLOWED)
def test_an_allow_covers_a_line_whose_every_command_it_matches(command: str) -> None:
    assert decide(command, allow=ALLOW) == "allow"


@pytest.mark.parametrize("command", ASKED, ids=lambda c: c[:30])
def test_G04_whatever_an_allow_does_not_surely_cover_is_asked_about(command: str) -> None:
    assert decide(command, allow=ALLOW) == "ask"


@pytest.mark.parametrize("command", DENIED)
def test_G04_a_deny_is_found_wherever_a_command_might_begin(command: str) -> None:
    assert decide(command, deny=DENY) == "deny"
    assert decide(command, deny=DENY, allow=("Shell",)) == "deny"


@pytest.mark.parametrize("command", UNSURE, ids=lambda c: c[:30])
def test_G04_a_line_that_hides_what_it_runs_is_asked_about_where_a_rule_depends_on_it(command: str) -> None:
    assert decide(command, deny=DENY) == "ask"
    assert decide(command, deny=DENY, allow=("Shell",)) == "ask"
    assert decide(command, ask=DENY) == "ask"
    assert decide(command, allow=("Shell",)) == "allow"  # no rule depends on what it runs


@pytest.mark.parametrize("command", HARMLESS)
def test_other_commands_are_left_alone(command: str) -> None:
    assert decide(command, deny=DENY) == "allow"


def test_a_bare_allow_covers_every_line() -> None:
    assert decide("a $(b) > c", allow=("Shell",)) == "allow"
