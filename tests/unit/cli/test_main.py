"""The command line as such: how fast it starts, what wrong use gets, and that nobody sees a traceback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cli.main import run as polypod
from orchestrator.cli.run import read_text
from tests.support.fake_gateway import ROOT, FakeGateway, served

PROJECT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-m", "orchestrator.cli"]
NAMES = [
    *("run", "demo", "serve", "attach", "ps", "tree", "logs", "tasks", "usage", "memory", "doctor", "send"),
    *("stop", "pause", "resume", "cancel", "compact", "rewind", "fork", "check", "export", "import"),
]


def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(PROJECT), **more}
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, env=environ, cwd=PROJECT, timeout=60)


def test_help_is_there_at_once() -> None:
    """Processor time, best of three: a busy machine must not fail it, a heavy import must."""
    run("--help")
    taken = []
    for _ in range(3):
        before, wall = os.times(), time.perf_counter()
        done = run("--help")
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        taken.append((cpu, time.perf_counter() - wall))
    print(f"polypod --help: {min(w for _, w in taken):.3f} s, {min(c for c, _ in taken):.3f} s of processor time")
    assert min(c for c, _ in taken) < 0.3
    assert all(name in done.stdout for name in NAMES)


def test_help_loads_neither_ray_nor_the_web() -> None:
    script = "import sys; from orchestrator.cli.main import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=PROJECT)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & {"ray", "pydantic", "aiohttp", "starlette", "uvicorn", "rich", "asyncio", "msgpack"}


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert polypod([name, "--help"]) == 0
    assert f"usage: polypod {name}" in capsys.readouterr().out


WRONG = [
    [],
    ["nope"],
    ["run"],
    ["logs"],
    ["ps", "--status", "odd"],
    ["run", "x", "--limit-requests", "many"],
    ["logs", "x", "--after", "-1"],
    ["send", "a", "b", "--steer", "--reject"],
    ["rewind", "x", "0"],
    ["fork", "x", "--at", "first"],
]


@pytest.mark.parametrize("words", WRONG)
def test_wrong_use_is_exit_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert polypod(words) == 2
    said = capsys.readouterr()
    assert "usage: polypod" in said.out + said.err
    assert "Traceback" not in said.err


def test_settings_that_are_wrong_are_exit_2_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "polypod.toml").write_text("[gateway]\nprot = 1\n")
    done = run("run", "x", "--home", str(tmp_path), POLYPOD__GATEWAY__PORT="x1")
    assert done.returncode == 2
    assert done.stderr.startswith("polypod: ")
    assert len(done.stderr.splitlines()) <= 2
    assert not (tmp_path / "store.db").exists()


def test_a_home_that_cannot_be_is_exit_2(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    done = run("serve", "--home", str(tmp_path / "home"))
    assert done.returncode == 2
    assert "--home" in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_the_whole_story(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    assert "Traceback" in run("serve", "--home", str(tmp_path / "home"), "--debug").stderr


@pytest.mark.parametrize("words", [["ps"], ["ps", "--json"], ["tree"], ["check"], ["doctor"]])
def test_an_empty_home_can_be_looked_at_and_stays_empty(tmp_path: Path, words: list[str]) -> None:
    done = run(*words, "--home", str(tmp_path / "home"))
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("command", ["ps", "tree"])
def test_an_empty_list_names_the_home_that_was_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert polypod([command, "--home", str(tmp_path / "home")]) == 0
    assert f"no Pods in {tmp_path / 'home'}" in capsys.readouterr().out


def test_the_doctor_refuses_rules_that_could_not_be_kept(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "polypod.toml").write_text('[profiles.default]\npermissions = { ask = ["Shel"] }\n')
    done = subprocess.run(
        [*COMMAND, "--home", str(home), "doctor"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(PROJECT)}, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "wrong settings" in done.stdout
    assert "profiles.default.permissions" in done.stdout
    assert "Did you mean Shell?" in done.stdout


def test_the_doctor_names_bypassed_approvals_and_compactions_that_come_too_late(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "polypod.toml").write_text(
        "[profiles.bold]\npermissions = { bypass = true }\n[compaction]\nthreshold = 900\n"
        '[models.tiny]\nprovider = "scripted"\nscript = "x.jsonl"\ncontext_window = 800\n'
    )
    done = subprocess.run(
        [*COMMAND, "--home", str(home), "doctor"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(PROJECT)}, timeout=60,
    )  # fmt: skip
    assert "from 900 tokens on between runs" in done.stdout
    assert "too late for tiny" in done.stdout
    assert "profiles bold" in done.stdout


def test_a_task_from_standard_input_has_no_line_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("first\nsecond\n"))
    assert read_text("-", "the task") == "first\nsecond"


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    fake = FakeGateway()
    fake.add()
    for _ in range(3000):
        fake.write(ROOT, "assistant_items", items=[{"type": "text", "text": "x" * 100}])
    with served(fake, tmp_path / "home"):
        words = f"{' '.join(COMMAND)} --home {tmp_path / 'home'} logs census"
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {words} | head -n 1"],
            capture_output=True, text=True, cwd=PROJECT, timeout=60,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("    1 xxx")


def test_a_run_whose_reader_goes_away_is_cancelled(tmp_path: Path) -> None:
    def talks(fake: FakeGateway) -> None:
        fake.stages.append(talks)
        fake.write(ROOT, "assistant_items", request_id="r", items=[{"type": "text", "text": "x" * 100_000}])

    def cancelled(fake: FakeGateway, path: str) -> None:
        if path.endswith("/cancel"):
            fake.set(status="idle")

    fake = FakeGateway(stages=[lambda f: None, talks], on_post=cancelled)
    with served(fake, tmp_path / "home"):
        words = f"{' '.join(COMMAND)} --home {tmp_path / 'home'} run x | head -n 1"
        done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, cwd=PROJECT, timeout=60)
    assert done.stderr == ""
    assert [path for path, _ in fake.posts] == ["/v1/pods", f"/v1/pods/{ROOT}/cancel"]


def test_the_doctor_names_the_owner(tmp_path: Path) -> None:
    with served(FakeGateway(), tmp_path / "home") as home:
        done = run("doctor", "--json", "--home", str(home.path), OPENAI_API_KEY="sk-secret")
    assert done.returncode == 0, done.stdout
    findings = {f["what"]: f for f in json.loads(done.stdout)["findings"]}
    assert "owned by `serve`" in findings["home"]["found"]
    assert "key in OPENAI_API_KEY" in findings["model"]["found"]
    assert "sk-secret" not in done.stdout


def test_the_doctor_says_what_is_wrong_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "polypod.toml").write_text("[gateway]\nprot = 1\n")
    done = run("doctor", "--home", str(tmp_path))
    assert done.returncode == 1
    assert "did you mean `port`" in done.stdout.lower()
    assert "Traceback" not in done.stdout + done.stderr


def test_nothing_is_imported_under_an_owner(tmp_path: Path) -> None:
    with served(FakeGateway(), tmp_path / "home") as home:
        done = run("import", "nothing.jsonl", "--home", str(home.path))
    assert done.returncode == 1
    assert "which alone may write its store" in done.stderr


@pytest.mark.parametrize(("text", "says"), [("", "the file is empty"), ("{}\n", "no header"), (None, "cannot be read")])
def test_a_file_that_is_no_export_is_refused(tmp_path: Path, text: str | None, says: str) -> None:
    file = tmp_path / "x.jsonl"
    if text is not None:
        file.write_text(text)
    done = run("import", str(file), "--home", str(tmp_path / "home"))
    assert done.returncode in (1, 2)
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeGateway]:
    gateway = FakeGateway()
    with served(gateway, tmp_path / "home"):
        yield gateway


def test_listings_for_programs_are_json(fake: FakeGateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = str(tmp_path / "home")
    fake.add(name="調査")
    fake.write(ROOT, "invoke", run_id="r", trigger="prompt")
    for words, read in ((["ps"], lambda x: x[0]["name"]), (["tree"], lambda x: x[0]["name"])):
        assert polypod(["--home", home, *words, "--json"]) == 0
        assert read(json.loads(capsys.readouterr().out)) == "調査"
    assert polypod(["--home", home, "logs", "調査", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["type"] == "invoke"


def test_following_ends_with_the_pod(fake: FakeGateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake.add()
    fake.write(ROOT, "invoke", run_id="r", trigger="prompt")
    item = {"kind": "notification", "payload": {}, "body": "late news"}
    fake.live[ROOT] = [
        ("system_item", {"seq": 2, "ts": "x", **item}),
        ("entry", {"seq": 3, "ts": "x", "type": "pod_end", "reason": "stop"}),
    ]
    assert polypod(["--home", str(tmp_path / "home"), "logs", "census", "--follow"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3"]
    assert "late news" in lines[1]


def test_S14_without_an_owner_the_store_itself_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from session_store.backends.sqlite import SqliteStore
    from session_store.entries import Invoke, SegmentStart
    from session_store.requests import Append, ClaimDirectory, Create, Open

    home = tmp_path / "home"
    home.mkdir()
    store = SqliteStore(home / "store.db")
    store.execute(Create(ROOT, "default", "m", SegmentStart(ROOT, {}, "", (), 1), name="調査"))
    epoch = store.execute(ClaimDirectory()).epoch
    lease = store.execute(Open(ROOT, epoch))
    store.execute(Append(ROOT, lease.epoch, lease.head, "b", (Invoke("r", "prompt"),)))
    store.close()  # the owner was killed: its lease still stands in the store

    assert polypod(["--home", str(home), "ps", "--json"]) == 0
    (pod,) = json.loads(capsys.readouterr().out)
    assert (pod["name"], pod["status"], pod["owner"]) == ("調査", "running", None)
    assert polypod(["--home", str(home), "logs", "調査", "--raw"]) == 0
    assert [line.split()[2] for line in capsys.readouterr().out.splitlines()] == ["segment_start", "invoke"]
    assert polypod(["--home", str(home), "check"]) == 0
    assert "no damage" in capsys.readouterr().out


def test_damage_is_exit_1_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "store.db").write_bytes(b"not a database at all" * 100)
    assert polypod(["--home", str(tmp_path), "check"]) == 1
    assert "1 damaged place" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ("logs", "x", "--after", "-1"),
        ("run", "x", "--limit-requests", "0"),
        ("run", "x", "--limit-children", "many"),
        ("run", "x", "--limit-seconds", "nan"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_in_words(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert polypod(words) == 2
    said = capsys.readouterr().err
    assert repr(words[-1]) in said
    assert "is needed" in said


@pytest.mark.parametrize(
    ("redirect", "code", "says"),
    [
        (">&-", 0, ""),
        ("2>&- >/dev/null", 0, ""),
        (">/dev/full", 1, "polypod: no space left on device\n"),
    ],
)
def test_output_that_goes_nowhere_is_no_traceback(tmp_path: Path, redirect: str, code: int, says: str) -> None:
    words = f"{' '.join(COMMAND)} --home {tmp_path / 'home'} ps {redirect}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, cwd=PROJECT, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", says)


@pytest.mark.parametrize(("words", "encoding"), [("--json", "utf-8"), ("--raw", "utf-8"), ("--json", "ascii")])
def test_S03_an_entry_is_one_line_whatever_its_text_and_the_terminal(tmp_path: Path, words: str, encoding: str) -> None:
    text = "a\u2028b\u2029c\u0085d 日本 😀"
    fake = FakeGateway()
    fake.add()
    fake.write(ROOT, "notification_of_tomorrow", text=text)
    with served(fake, tmp_path / "home") as home:
        done = run("logs", "census", words, "--home", str(home.path), PYTHONIOENCODING=encoding)
    assert len(done.stdout.splitlines()) == 1, done.stdout
    assert json.loads(done.stdout[done.stdout.index("{") :])["text"] == text
