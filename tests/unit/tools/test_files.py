"""Read, Write, Edit."""

import hashlib
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.tools.files import LineWindow
from actors.tools.limits import ToolLimits
from tests.support.tool_calls import Bench, told


async def test_read_numbers_lines_and_tells_machines_the_digest(bench: Bench) -> None:
    file = bench.write("a/b.txt", "one\ntwo\n\nfour")
    outcome = await bench.call("Read", path="a/b.txt")
    assert outcome.status == "ok"
    assert told(outcome) == "1\tone\n2\ttwo\n3\t\n4\tfour"
    assert outcome.summary == "read a/b.txt: lines 1–4 of 4"
    assert outcome.data == {"file": {"path": str(file), "digest": hashlib.sha256(file.read_bytes()).hexdigest()}}


@pytest.mark.parametrize(
    ("offset", "limit", "says"),
    [
        (2, 2, "2\tl2\n3\tl3\n[the whole file: 5 lines, 15 characters, 15 bytes; go on with offset=4]"),
        (4, 9, "4\tl4\n5\tl5"),
        (5, 1, "5\tl5"),
        (6, 1, "`f` has 5 lines: there is no line 6."),
    ],
)
async def test_read_shows_a_range(bench: Bench, offset: int, limit: int, says: str) -> None:
    bench.write("f", "l1\nl2\nl3\nl4\nl5\n")
    assert told(await bench.call("Read", path="f", offset=offset, limit=limit)) == says


async def test_read_of_odd_files(bench: Bench) -> None:
    bench.write("empty", b"")
    bench.write("newline", b"\n")
    bench.write("crlf", b"a\r\nb\r\n")
    assert told(await bench.call("Read", path="empty")) == "[the file is empty]"
    assert told(await bench.call("Read", path="newline")) == "1\t"
    assert told(await bench.call("Read", path="crlf")) == "1\ta\n2\tb\n[lines end in CRLF]"


async def test_read_of_what_is_no_file(bench: Bench) -> None:
    bench.write("src/names.py", "x")
    os.mkfifo(bench.workspace / "pipe")
    assert "does not exist. Near it: `src/names.py`." in told(await bench.call("Read", path="src/name.py"))
    assert "does not exist." in told(await bench.call("Read", path="no/such/thing"))
    assert "is a folder: use Glob" in told(await bench.call("Read", path="src"))
    assert "is not a regular file" in told(await bench.call("Read", path="pipe"))
    assert "a part of it is a file" in told(await bench.call("Read", path="src/names.py/x"))
    assert "path is empty" in told(await bench.call("Read", path=""))
    assert "NUL" in told(await bench.call("Read", path="a\0b"))
    assert "half a character" in told(await bench.call("Read", path="a\ud83d"))


JAPANESE = "吾輩は猫である。名前はまだ無い。\nどこで生れたかとんと見当がつかぬ。コーヒー、カタカナ。\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp932", "euc_jp", "iso2022_jp", "utf-16", "utf-16-le"])
async def test_G05_japanese_text_is_never_called_binary(bench: Bench, encoding: str) -> None:
    bench.write("neko.txt", (JAPANESE * 20_000).encode(encoding))
    outcome = await bench.call("Read", path="neko.txt")
    assert outcome.status == "ok"
    assert told(outcome).startswith("1\t吾輩は猫である。名前はまだ無い。\n2\tどこで")
    assert "�" not in told(outcome)
    assert "the whole file: 40,000 lines" in told(outcome)
    assert len(told(outcome)) < 31_000


async def test_G05_a_japanese_file_over_the_limit_is_cut_at_a_character_with_its_full_size(bench: Bench) -> None:
    bench.write("line", "あ" * 100_000)
    outcome = await bench.call("Read", path="line")
    text, note = told(outcome).split("\n", 1)
    assert text == "1\t" + "あ" * (30_000 - 3)
    assert "line 1 is cut here" in note
    assert "1 lines, 100,000 characters, 300,000 bytes" in note


@pytest.mark.parametrize(
    "data", [b"\x7fELF\x02\x01\x01\0\0\0", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"\x01\x02\x03\x04", bytes(range(256))]
)
async def test_binary_files_are_refused_with_their_size(bench: Bench, data: bytes) -> None:
    bench.write("bin", data)
    outcome = await bench.call("Read", path="bin")
    assert outcome.status == "error"
    assert f"is a binary file of {len(data)} bytes" in told(outcome)


async def test_latin_1_and_slightly_damaged_utf_8_are_text(bench: Bench) -> None:
    bench.write("latin", "été à la mer, déjà vu".encode("latin-1"))
    bench.write("damaged", "日本語".encode() * 100 + b"\xff" + "テスト".encode() * 100)
    assert "été à la mer" in told(await bench.call("Read", path="latin"))
    assert "日本語" in told(await bench.call("Read", path="damaged"))


@given(st.text(alphabet="aé\nあ𠮷\r", max_size=60), st.integers(1, 9), st.integers(1, 9), st.integers(1, 40), st.data())
def test_the_line_window_sees_the_same_however_the_text_is_split(
    text: str, first: int, count: int, budget: int, data: st.DataObject
) -> None:
    whole = LineWindow(first, count, budget)
    whole.feed(text)
    pieces = LineWindow(first, count, budget)
    rest = text
    while rest:
        cut = data.draw(st.integers(1, len(rest)))
        pieces.feed(rest[:cut])
        rest = rest[cut:]
    lines = text.split("\n")
    assert whole.total == pieces.total == len(lines) - (not lines[-1])
    assert whole.shown() == pieces.shown()
    assert whole.notes(9, "utf-8") == pieces.notes(9, "utf-8")
    for row in whole.shown():
        number, line = row.split("\t", 1)
        assert lines[int(number) - 1].startswith(line.removesuffix("\r"))
    assert len("\n".join(whole.shown())) <= budget + 3  # the first number is shown even when there is no room


async def test_write_makes_folders_and_tells(bench: Bench) -> None:
    outcome = await bench.call("Write", path="new/deep/f.txt", content="あ\nb")
    assert outcome.status == "ok"
    assert outcome.summary == "created new/deep/f.txt: 2 lines, 5 bytes"
    assert (bench.workspace / "new/deep/f.txt").read_text() == "あ\nb"
    assert list((bench.workspace / "new/deep").iterdir()) == [bench.workspace / "new/deep/f.txt"]
    again = await bench.call("Write", path=str(bench.workspace / "new/deep/f.txt"), content="c\n")
    assert again.summary == "wrote new/deep/f.txt: 1 lines, 2 bytes"


async def test_an_existing_file_must_have_been_read_as_it_is_now(bench: Bench) -> None:
    file = bench.write("f", "old\n")
    for name, arguments in (("Write", {"content": "new"}), ("Edit", {"old": "old", "new": "new"})):
        outcome = await bench.call(name, path="f", **arguments)
        assert outcome.status == "error"
        assert "was not read in this session: Read it first" in told(outcome)
    await bench.call("Read", path="f")
    file.write_text("changed by hand\n")
    for name, arguments in (("Write", {"content": "new"}), ("Edit", {"old": "by", "new": "new"})):
        outcome = await bench.call(name, path="./sub/../f" if name == "Edit" else "f", **arguments)
        if name == "Write":
            assert "has changed since it was last read" in told(outcome)
    assert file.read_text() == "changed by hand\n"
    await bench.call("Read", path="f")
    assert (await bench.call("Edit", path="f", old="hand", new="Edit")).status == "ok"
    assert (await bench.call("Write", path="f", content="after an Edit no Read is needed")).status == "ok"


async def test_writing_keeps_the_mode_and_writes_through_an_inner_link(bench: Bench) -> None:
    file = bench.write("run.sh", "#!/bin/sh\n")
    file.chmod(0o750)
    (bench.workspace / "link").symlink_to("run.sh")
    await bench.call("Read", path="link")
    assert (await bench.call("Write", path="link", content="#!/bin/sh\ntrue\n")).status == "ok"
    assert stat.S_IMODE(file.stat().st_mode) == 0o750
    assert (bench.workspace / "link").is_symlink()
    assert file.read_text() == "#!/bin/sh\ntrue\n"


async def test_writing_that_fails_leaves_the_file_and_no_litter(bench: Bench) -> None:
    bench.write("sub/f", "x")
    assert "is a folder" in told(await bench.call("Write", path="sub", content="y"))
    assert "is a folder" in told(await bench.call("Write", path="fresh/", content="y"))
    assert "a part of it is a file" in told(await bench.call("Write", path="sub/f/g", content="y"))
    assert "File name too long" in told(await bench.call("Write", path="n" * 300, content="y"))
    assert "half a character" in told(await bench.call("Write", path="g", content="y\ud83d"))
    assert sorted(p.name for p in bench.workspace.rglob("*")) == ["f", "sub"]


async def test_a_file_too_large_to_change_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path, limits=ToolLimits(editable=10))
    bench.write("f", "0123456789a")
    await bench.call("Read", path="f")
    assert "files over 10 bytes cannot be changed" in told(await bench.call("Edit", path="f", old="a", new="b"))


@pytest.mark.parametrize(
    ("old", "new", "more", "says"),
    [
        ("", "x", {}, "`old` is empty"),
        ("b", "b", {}, "are the same"),
        ("zz", "x", {}, "does not occur in `f`: Read it"),
        ("    b c\nd", "x", {}, "does not occur in `f`. Line 2 begins like it"),
        ("a", "x", {}, "occurs 3 times in `f` (lines 1, 3, 3)"),
        ("q\ud83d", "x", {}, "does not occur"),
        ("b c", "x\ud83d", {}, "half a character"),
    ],
)
async def test_edit_refuses_clearly(bench: Bench, old: str, new: str, more: dict[str, bool], says: str) -> None:
    file = bench.write("f", "a\nb c\naa\n")
    await bench.call("Read", path="f")
    outcome = await bench.call("Edit", path="f", old=old, new=new, **more)
    assert outcome.status == "error"
    assert says in told(outcome)
    assert file.read_text() == "a\nb c\naa\n"


async def test_edit_of_what_is_not_there_or_not_text(bench: Bench) -> None:
    bench.write("bin", b"\0\1\2")
    assert "use Write to create it" in told(await bench.call("Edit", path="no", old="a", new="b"))
    await bench.call("Read", path="bin")
    assert "was not read" in told(await bench.call("Edit", path="bin", old="a", new="b"))


async def test_edit_replaces_one_or_all(bench: Bench) -> None:
    file = bench.write("f", "a\nb c\naa\n")
    await bench.call("Read", path="f")
    assert (await bench.call("Edit", path="f", old="b c\na", new="B")).summary == "edited f at line 2"
    assert file.read_text() == "a\nBa\n"
    outcome = await bench.call("Edit", path="f", old="a", new="あ", replace_all=True)
    assert outcome.summary == "edited f at 2 places from line 1"
    assert file.read_text() == "あ\nBあ\n"


@pytest.mark.parametrize("encoding", ["cp932", "euc_jp", "utf-8-sig", "utf-16", "utf-16-be"])
async def test_edit_keeps_encoding_and_line_ends(bench: Bench, encoding: str) -> None:
    text = JAPANESE.replace("\n", "\r\n")
    file = bench.write("f", text.encode(encoding))
    await bench.call("Read", path="f")
    outcome = await bench.call("Edit", path="f", old="無い。\nどこで", new="有る。\nここで\n又")
    assert outcome.status == "ok", told(outcome)
    assert file.read_bytes() == text.replace("無い。\r\nどこで", "有る。\r\nここで\r\n又").encode(encoding)


async def test_edit_refuses_words_the_encoding_does_not_have(bench: Bench) -> None:
    bench.write("f", JAPANESE.encode("cp932"))
    await bench.call("Read", path="f")
    outcome = await bench.call("Edit", path="f", old="猫", new="😺")
    assert "the file is in cp932, which has no `😺`" in told(outcome)
