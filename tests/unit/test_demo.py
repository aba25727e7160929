"""The demo's script: valid, at least six children, and figures that are true, whatever the folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from actors.models.script import line_for, read_script
from actors.protocol.ids import name_problem
from orchestrator.demo import LEAST_CHILDREN, PARENT, jobs_for, script_for, settings_for

NAMES = ["plain", "日本 語", 'it\'s $HOME `x` "q"', "-rf", "[glob]*", "whole folder", "census", "..hidden..", "a" * 100]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(NAMES):
        place = tmp_path / name
        (place / "サブ dir").mkdir(parents=True)
        (place / "a b.py").write_text("x\n" * (number + 1))
        (place / "サブ dir" / "ノート.md").write_text("# y\nz\n")
    return tmp_path


def run(folder: Path, job_name: str) -> str:
    (job,) = [job for job in jobs_for(folder) if job.name == job_name]
    done = subprocess.run(["bash", "-c", job.arguments["command"]], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_census_of_the_whole_folder_is_true(folder: Path) -> None:
    lines = [line.split() for line in run(folder, "whole folder").splitlines()]
    python = sum(n + 1 for n in range(len(NAMES)))
    bytes_ = 2 * python + 6 * len(NAMES)
    assert lines[0] == ["all", "18", "files", str(python + 18), "lines", f"{bytes_ / 1000:.1f}", "KB"]
    assert {line[0]: int(line[3]) for line in lines[1:]} == {"Python": python, "Markdown": 18}


@pytest.mark.parametrize("number", range(4))
def test_the_census_of_each_folder_is_true_whatever_its_name(folder: Path, number: int) -> None:
    job = jobs_for(folder)[4 + number]
    first = run(folder, job.name).splitlines()[0].split()
    assert first[:3] == ["all", "2", "files"]


def test_the_largest_files_are_named_whole(folder: Path) -> None:
    (folder / "日本 語" / "big one.bin").write_bytes(b"\0" * 50_000)
    assert run(folder, "largest files").splitlines()[0] == "        50.0 KB  日本 語/big one.bin"


def test_what_others_made_is_left_out(tmp_path: Path) -> None:
    for name in (".git", "node_modules", "__pycache__", ".venv"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.py").write_text("x\n")
    assert run(tmp_path, "whole folder").split()[:2] == ["all", "0"]


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_an_empty_folder_gives_six_children(tmp_path: Path, depth: int) -> None:
    (tmp_path / "/".join("abc"[:depth])).mkdir(parents=True, exist_ok=True)
    jobs = jobs_for(tmp_path)
    assert len(jobs) == LEAST_CHILDREN
    assert run(tmp_path, "whole folder").split()[:2] == ["all", "0"]
    assert run(tmp_path, "depth") == f"  {depth} folders, {depth} deep\n"


def test_children_have_proper_and_different_names(folder: Path) -> None:
    names = [job.name for job in jobs_for(folder)]
    assert len(names) >= LEAST_CHILDREN
    assert len(set(names)) == len(names)
    assert [name_problem(name) for name in names] == [None] * len(names)
    assert PARENT not in names


def test_a_folder_name_that_is_no_text_is_passed_over(tmp_path: Path) -> None:
    place = os.path.join(os.fsencode(tmp_path), b"\xff\xfe")
    os.mkdir(place)
    Path(os.fsdecode(place), "f").write_text("x")
    assert len(jobs_for(tmp_path)) == LEAST_CHILDREN


def test_the_script_has_a_line_for_every_request(folder: Path) -> None:
    jobs = jobs_for(folder)
    lines = read_script(script_for(folder, jobs), "script")
    spawn = line_for(lines, PARENT, 1)
    assert spawn is not None
    assert [call.name for call in spawn.tool_calls] == ["SpawnPod"] * len(jobs)
    for job in jobs:
        first, last = (line_for(lines, job.name, n) for n in (1, 2))
        assert first is not None
        assert last is not None
        assert [call.name for call in first.tool_calls] == [job.tool]
        assert (last.text_from, last.tool_calls) == ("tool_results", ())
    report = line_for(lines, PARENT, 4)
    assert report is not None
    assert report.text_from == "tool_results"
    assert line_for(lines, PARENT, 9) is not None, "a late wake-up must not end in an error"


def test_the_settings_can_be_read(folder: Path) -> None:
    import tomllib

    plain = tomllib.loads(settings_for("script.jsonl", folder / '日本 "q"'))
    assert plain["models"]["scripted"] == {"provider": "scripted", "script": "script.jsonl"}
    assert plain["profiles"]["default"]["workspace"] == str(folder / '日本 "q"')
