"""G01, G08: what may be touched, by where it really leads."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from actors.tools import files, filework
from actors.tools.offload import StopSign
from actors.tools.paths import LinkMet, open_file
from tests.support.tool_calls import Bench, told

SECRET = "the outside content"


@pytest.fixture
def outside(bench: Bench) -> Path:
    folder = bench.folder / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


async def refused(bench: Bench, path: str, *, why: str) -> None:
    """Read, write and search of the path are refused, say why and show nothing."""
    for name, arguments in (
        ("Read", {}),
        ("Write", {"content": "overwritten"}),
        ("Edit", {"old": "outside", "new": "inside"}),
        ("Grep", {"pattern": "content"}),
    ):
        outcome = await bench.call(name, path=path, **arguments)
        assert outcome.status == "denied", (name, outcome)
        assert why in told(outcome)
        assert SECRET not in told(outcome)


@pytest.mark.parametrize("target", ["secret.txt", "../outside/secret.txt", "new.txt"])
async def test_G01_a_link_to_a_file_outside(bench: Bench, outside: Path, target: str) -> None:
    (bench.workspace / "link").symlink_to(outside / target)
    await refused(bench, "link", why="leads through a symbolic link to a place that is outside")
    assert (outside / "secret.txt").read_text() == SECRET
    assert not (outside / "new.txt").exists()


async def test_G01_a_parent_folder_that_is_a_link(bench: Bench, outside: Path) -> None:
    (bench.workspace / "a").mkdir()
    (bench.workspace / "a/up").symlink_to(outside)
    await refused(bench, "a/up/secret.txt", why="leads through a symbolic link to a place that is outside")
    await refused(bench, "a/up/../outside/secret.txt", why="outside")
    outcome = await bench.call("Write", path="a/up/new/file", content="x")
    assert outcome.status == "denied"
    assert os.listdir(outside) == ["secret.txt"]


@pytest.mark.parametrize("spot", ["file", "parent"])
async def test_G01_a_link_made_after_the_check(bench: Bench, outside: Path, spot: str) -> None:
    """The path was resolved and allowed; before it is opened, a part of it becomes a link."""
    bench.write("sub/secret.txt", "inside")
    real = str(bench.workspace / "sub/secret.txt")
    before = filework.snapshot(real, 1_000, StopSign())
    (bench.workspace / "sub/secret.txt").unlink()
    if spot == "file":
        (bench.workspace / "sub/secret.txt").symlink_to(outside / "secret.txt")
    else:
        (bench.workspace / "sub").rmdir()
        (bench.workspace / "sub").symlink_to(outside)
    with pytest.raises(LinkMet) as met:
        open_file(real)
    with pytest.raises(LinkMet):
        filework.replace(real, b"overwritten", before, StopSign())
    assert (outside / "secret.txt").read_text() == SECRET
    assert sorted(os.listdir(outside)) == ["secret.txt"]
    refusal = files.refusal(met.value, "sub/secret.txt")
    assert refusal.status == "denied"
    assert "symbolic link" in str(refusal)


async def test_G01_links_that_flip_while_tools_run_never_show_or_change_the_outside(
    bench: Bench, outside: Path
) -> None:
    (bench.workspace / "d").mkdir()
    inside = bench.write("d/secret.txt", "inside")
    stop = False

    def flip() -> None:
        while not stop:
            os.rename(bench.workspace / "d", bench.workspace / "kept")
            os.symlink(outside, bench.workspace / "d")
            os.unlink(bench.workspace / "d")
            os.rename(bench.workspace / "kept", bench.workspace / "d")

    flipping = asyncio.ensure_future(asyncio.to_thread(flip))
    try:
        for turn in range(300):
            outcome = await bench.call("Read", path="d/secret.txt")
            assert SECRET not in told(outcome)
            if outcome.status == "ok":
                await bench.call("Edit", path="d/secret.txt", old="inside", new=f"inside {turn}")
    finally:
        stop = True
        await flipping
    assert (outside / "secret.txt").read_text() == SECRET
    assert os.listdir(outside) == ["secret.txt"]
    assert inside.read_text().startswith("inside")


async def test_outside_by_name_and_by_dots(bench: Bench, outside: Path) -> None:
    for path in (str(outside / "secret.txt"), "../outside/secret.txt", "/etc/passwd", f"../{bench.workspace.name}x/f"):
        outcome = await bench.call("Read", path=path)
        assert outcome.status == "denied"
        assert "outside the folders this Pod may read: the workspace" in told(outcome)


async def test_glob_and_grep_do_not_follow_links_out(bench: Bench, outside: Path) -> None:
    bench.write("in.txt", "inside content")
    (bench.workspace / "file").symlink_to(outside / "secret.txt")
    (bench.workspace / "folder").symlink_to(outside)
    (bench.workspace / "ok").symlink_to("in.txt")
    assert told(await bench.call("Glob", pattern="**")) == "in.txt\nin.txt"
    assert SECRET not in told(await bench.call("Grep", pattern="content"))


async def test_a_scope_is_what_may_be_read_and_written(bench: Bench) -> None:
    for path in ("src/a", "docs/b", "c"):
        bench.write(path, "content")
    bench.scoped(read=("docs",), write=("src",))
    for path, may_read, may_write in (("src/a", True, True), ("docs/b", True, False), ("c", False, False)):
        assert (await bench.call("Read", path=path)).status == ("ok" if may_read else "denied")
        assert (await bench.call("Write", path=path, content="x")).status == ("ok" if may_write else "denied")
    assert "may write: `src`" in told(await bench.call("Write", path="c", content="x"))
    assert told(await bench.call("Glob", pattern="**/*")) == "docs/b\nsrc/a"
    assert told(await bench.call("Grep", pattern=".")) == "docs/b:1:content\nsrc/a:1:x"
    assert "may read" in told(await bench.call("Glob", pattern="*", path="/etc"))


async def test_a_scope_folder_that_became_a_link_out_of_the_workspace_counts_no_more(
    bench: Bench, outside: Path
) -> None:
    (bench.workspace / "src").symlink_to(outside)
    bench.scoped(write=("src",))
    outcome = await bench.call("Read", path="src/secret.txt")
    assert outcome.status == "denied"


LAYOUTS: list[Callable[[Bench], Bench]] = [
    lambda bench: bench,
    lambda bench: bench.scoped(write=(".",)),
    lambda bench: bench.scoped(write=("/",)),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("folder", ["store", "memory", "memory/_staging"])
async def test_G08_log_memory_and_staging_are_not_written_by_general_tools(
    bench: Bench, folder: str, layout: Callable[[Bench], Bench]
) -> None:
    layout(bench)
    kept = bench.write(f"{folder}/kept", "as it was")
    bench.context = replace(bench.context, forbidden=(bench.workspace / "memory",), hidden=(bench.workspace / "store",))
    (bench.workspace / "way").symlink_to(bench.workspace / folder)
    for path in (f"{folder}/kept", f"x/../{folder}/kept", "way/kept", f"{folder}/new"):
        outcome = await bench.call("Write", path=path, content="broken")
        assert outcome.status == "denied"
        assert "belongs to polypod itself" in told(outcome)
    assert (await bench.call("Edit", path="way/kept", old="as", new="is")).status == "denied"
    assert kept.read_text() == "as it was"
    assert os.listdir(kept.parent) == ["kept"] or folder == "memory"
    read = await bench.call("Read", path=f"{folder}/kept")
    assert read.status == ("denied" if folder == "store" else "ok")
    assert ("store" in told(await bench.call("Grep", pattern="as it"))) is False


async def test_the_spill_folder_may_be_read_even_inside_the_hidden_home(bench: Bench) -> None:
    home = bench.folder / "home"
    (home / "spill").mkdir(parents=True)
    (home / "spill/1.txt").write_text("spilled")
    (home / "secret").write_text(SECRET)
    bench.context = replace(bench.context, hidden=(home,), spill=home / "spill")
    assert told(await bench.call("Read", path=str(home / "spill/1.txt"))) == "1\tspilled"
    assert told(await bench.call("Grep", pattern="spill", path=str(home / "spill/1.txt"))).endswith("1.txt:1:spilled")
    assert (await bench.call("Write", path=str(home / "spill/1.txt"), content="x")).status == "denied"
    assert (await bench.call("Read", path=str(home / "secret"))).status == "denied"


async def test_G02_what_a_child_was_given_it_alone_writes(bench: Bench) -> None:
    bench.write("docs/a.md", "old\n")
    bench.context = replace(bench.context, lent=(str(bench.workspace / "docs"),))
    assert (await bench.call("Read", path="docs/a.md")).status == "ok"
    for call in ({"path": "docs/a.md", "content": "new"}, {"path": "docs/b/c.md", "content": "new"}):
        refused = await bench.call("Write", **call)
        assert refused.status == "denied"
        assert "gave to a child" in refused.summary
    assert (await bench.call("Write", path="docs2.md", content="mine")).status == "ok"
    assert (bench.workspace / "docs/a.md").read_text() == "old\n"
