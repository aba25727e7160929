"""The home: paths, its one owner, and what happens when that is killed (DESIGN §6)."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.home import VERSION, Home, HomeError, Owner, find_home

ROOT = Path(__file__).resolve().parents[2]
HOLD = """
import sys, time
from pathlib import Path
from orchestrator.home import Home, Owner
ownership = Home(Path(sys.argv[1])).own()
assert ownership is not None
ownership.announce(Owner("http://127.0.0.1:1", "s", 1))
print("owned", flush=True)
sys.stdin.readline()
ownership.close()
print("free", flush=True)
sys.stdin.readline()
"""


@contextmanager
def another_owner(home: Home) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, str(home.path)]
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "owned\n"
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_home_has_one_owner_over_processes(tmp_path: Path) -> None:
    home = Home(tmp_path / "家 home")
    assert not home.is_owned()
    with another_owner(home) as process:
        assert home.is_owned()
        assert home.own() is None
        assert home.owner() == Owner("http://127.0.0.1:1", "s", 1)
        assert home.owner_pid() == process.pid
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "free\n"
        assert not home.is_owned()
        assert not home.server_file.exists()


def test_a_killed_owner_leaves_no_lock_and_its_address_is_not_believed(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with another_owner(home) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert home.server_file.exists()
    assert home.owner() is None
    ownership = home.own()
    assert ownership is not None
    assert not home.server_file.exists(), "the address of the killed owner must not stand while the new one starts"
    ownership.close()


def test_no_child_process_inherits_the_lock(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    ownership = home.own()
    assert ownership is not None
    child = subprocess.Popen(["sleep", "30"], close_fds=False)
    try:
        ownership.close()
        assert not home.is_owned()
    finally:
        child.kill()
        child.wait()


def test_looking_at_a_free_home_makes_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert home.owner() is None
    assert not home.path.exists()


def test_only_this_user_reads_address_and_secret(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    ownership = home.own()
    assert ownership is not None
    old = os.umask(0)
    try:
        ownership.announce(Owner("http://127.0.0.1:1", "s", 1))
    finally:
        os.umask(old)
    assert stat.S_IMODE(home.server_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
    ownership.close()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"address": 1}', '"x"'])
def test_a_damaged_server_file_is_no_owner_yet(tmp_path: Path, text: str) -> None:
    home = Home(tmp_path / "home")
    ownership = home.own()
    assert ownership is not None
    home.server_file.write_text(text)
    assert home.owner() is None
    ownership.close()


def test_fields_of_a_newer_owner_are_left_out(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    ownership = home.own()
    assert ownership is not None
    home.server_file.write_text('{"address": "a", "secret": "s", "pid": 1, "version": "9", "new": true}')
    assert home.owner() == Owner("a", "s", 1, "9")
    ownership.close()


def test_a_home_that_is_a_file_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(HomeError, match=r"is a file: name a folder you may write with --home or POLYPOD_HOME"):
        Home(tmp_path / "home").own()


def test_a_home_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeError, match="cannot be made"):
        Home(tmp_path / "file" / "home").own()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_is_not_writable_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o500)
    with pytest.raises(HomeError, match="not writable"):
        Home(tmp_path / "home").own()


@pytest.mark.parametrize(
    ("named", "environ", "path"),
    [
        ("/a", {"POLYPOD_HOME": "/b"}, "/a"),
        (None, {"POLYPOD_HOME": "/b"}, "/b"),
        (None, {"POLYPOD_HOME": ""}, str(Path("~/.polypod").expanduser())),
        ("~/x", {}, str(Path("~/x").expanduser())),
        ("x", {}, str(Path.cwd() / "x")),
    ],
)
def test_which_home(named: str | None, environ: dict[str, str], path: str) -> None:
    assert str(find_home(named, environ).path) == path


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
