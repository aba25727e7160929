"""What an owner that was killed leaves behind is cleared by the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cluster import SESSION_NOTE, clear_session, note_session


def test_the_next_owner_removes_rays_folder_of_a_killed_one(tmp_path: Path) -> None:
    folder = tmp_path / "ray" / "session_2026"
    (folder / "sockets").mkdir(parents=True)
    note_session(tmp_path, folder)
    clear_session(tmp_path)
    assert not folder.exists()
    assert not (tmp_path / SESSION_NOTE).exists()
    clear_session(tmp_path)


@pytest.mark.parametrize("note", ["", ".", "precious", "session_of_mine", "{}/precious", "{}/session_of_mine"])
def test_a_damaged_note_removes_nothing(tmp_path: Path, note: str) -> None:
    kept = [tmp_path / "precious", tmp_path / "session_of_mine"]
    for folder in kept:
        folder.mkdir()
    (tmp_path / SESSION_NOTE).write_text(note.format(tmp_path), encoding="utf-8")
    clear_session(tmp_path)
    assert all(folder.is_dir() for folder in kept)
