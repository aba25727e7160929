"""What `@path`, `#slug` and `/slug` lead to on a disk."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from actors.protocol.references import Place, Resolved
from actors.tools.offload import StopSign
from actors.tools.references import files
from actors.tools.references.bounds import ReferenceBounds
from actors.tools.references.completing import complete
from actors.tools.references.resolver import Library
from session_store.items import Json, Segment
from session_store.requests import Scope

SECRET = "the outside content"


class World:
    """A workspace, a memory and something outside both."""

    def __init__(self, folder: Path) -> None:
        folder = folder.resolve()
        self.workspace, self.memory, self.outside = folder / "ws", folder / "memory", folder / "outside"
        self.home = self.workspace / "home"
        for made in (self.home, self.memory / "knowledge", self.outside, self.workspace / ".polypod/workflows"):
            made.mkdir(parents=True)
        (self.outside / "secret.txt").write_text(SECRET)
        (self.home / "server.json").write_text(SECRET)
        self.library = Library(Place(str(self.workspace)), str(self.memory), (self.home,))

    def write(self, path: str, text: str | bytes) -> None:
        real = self.workspace / path
        real.parent.mkdir(parents=True, exist_ok=True)
        real.write_bytes(text if isinstance(text, bytes) else text.encode())

    def know(self, slug: str, body: str, *requires: str) -> None:
        head = f"---\nrequires: [{', '.join(requires)}]\n---\n" if requires else ""
        (self.memory / f"knowledge/{slug}.md").write_text(head + body)

    def workflow(self, slug: str, text: str) -> None:
        (self.workspace / f".polypod/workflows/{slug}.md").write_text(text)

    async def resolve(self, *segments: Segment) -> Resolved:
        return await self.library.resolve("m", segments)


def at(path: str) -> Segment:
    return Segment("file_ref", f"@{path}", {"path": path})


def about(slug: str) -> Segment:
    return Segment("knowledge_ref", f"#{slug}", {"slug": slug})


def invoke(slug: str) -> Segment:
    return Segment("workflow_invoke", f"/{slug}", {"slug": slug})


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def payloads(found: Resolved) -> list[dict[str, Json]]:
    assert found.refused is None
    return [item.payload for item in found.attachments]


async def test_a_file_a_folder_and_a_name_with_spaces(world: World) -> None:
    world.write("src/a.py", "print()\n")
    world.write("議事録/十 月.md", "日本🙂")
    found = await world.resolve(
        Segment("text", "see "), at("src/a.py"), at("src"), at("議事録/十 月.md"), at("src/a.py")
    )
    assert payloads(found) == [
        {"path": "src/a.py", "content": "print()\n"},
        {"path": "src/", "content": "a.py"},
        {"path": "議事録/十 月.md", "content": "日本🙂"},
    ]
    assert [(i.kind, i.item_id) for i in found.attachments] == [
        ("file_attachment", "m:1"),
        ("file_attachment", "m:2"),
        ("file_attachment", "m:3"),
    ]
    assert found.attachments[0].body == '<file path="src/a.py">\nprint()\n\n</file>'
    assert found.literal == ()


@pytest.mark.parametrize("encoding", ["utf-8", "cp932", "euc_jp", "iso2022_jp", "utf-16", "utf-8-sig"])
async def test_G05_a_japanese_file_over_the_limit_is_cut_at_a_character_with_its_full_size(
    world: World, encoding: str
) -> None:
    text = "これは長い議事録です。" * 50_000
    data = text.encode(encoding)
    for limit in range(10_000, 10_008):
        world.write("long.txt", data)
        world.library = replace(world.library, bounds=ReferenceBounds(file=limit))
        (shown,) = payloads(await world.resolve(at("long.txt")))
        assert text.startswith(shown["content"])
        assert len(shown["content"]) >= (limit - 10) // 4
        assert f"{len(data):,} bytes" in shown["note"]


async def test_a_bad_file_reference_is_told_and_its_text_stays(world: World) -> None:
    world.write("data.bin", bytes(range(256)))
    world.write("Readme.md", "x")
    os.mkfifo(world.workspace / "pipe")
    cases = {
        "data.bin": "binary file of 256 bytes",
        "readme.md": "Near it: `Readme.md`",
        "pipe": "not a regular file",
        "home/server.json": "belongs to polypod itself",
        "../outside/secret.txt": "is outside the folders",
        str(world.outside): "is outside the folders",
        "Readme.md/x": "does not exist",
    }
    found = await world.resolve(*(at(path) for path in cases))
    assert payloads(found) == []
    assert [told.index for told in found.literal] == list(range(len(cases)))
    for told, (path, words) in zip(found.literal, cases.items(), strict=True):
        assert told.message.startswith(f"@{path}: ")
        assert words in told.message or "a part of it is a file" in told.message
        assert SECRET not in told.message


async def test_the_scope_decides_and_a_listing_hides_what_is_polypods(world: World) -> None:
    world.write("docs/a.md", "a")
    world.write("src/b.py", "b")
    found = await world.resolve(at("."))
    assert payloads(found) == [{"path": "./", "content": ".polypod/\ndocs/\nsrc/"}]
    world.library = replace(world.library, place=Place(str(world.workspace), Scope(("docs",), ())))
    found = await world.resolve(at("docs/a.md"), at("src/b.py"))
    assert [p["path"] for p in payloads(found)] == ["docs/a.md"]
    assert "outside the folders" in found.literal[0].message


@pytest.mark.parametrize("target", ["secret.txt", "../outside/secret.txt", "."])
async def test_G01_a_link_out_of_the_scope_is_refused_and_shows_nothing(world: World, target: str) -> None:
    (world.workspace / "link").symlink_to(world.outside / target)
    (world.workspace / "inside").symlink_to(world.workspace / "home/../a.txt")
    world.write("a.txt", "in here")
    found = await world.resolve(at("link"), at("link/secret.txt"), at("inside"))
    assert [p["content"] for p in payloads(found)] == ["in here"]
    assert all("symbolic link" in told.message or "a part of it" in told.message for told in found.literal)
    assert len(found.literal) == 2
    assert SECRET not in str(found)


async def test_G01_a_link_made_after_the_check_is_met_not_followed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("a/x.txt", "mine")
    opened = files.open_file

    def swap(real: str) -> int:
        (world.workspace / "a/x.txt").unlink()
        (world.workspace / "a/x.txt").symlink_to(world.outside / "secret.txt")
        return opened(real)

    monkeypatch.setattr(files, "open_file", swap)
    found = await world.resolve(at("a/x.txt"))
    assert payloads(found) == []
    assert "symbolic link" in found.literal[0].message


async def test_knowledge_with_what_it_requires_each_once_and_no_circles(world: World) -> None:
    world.know("設計", "design", "words", "style")
    world.know("style", "style", "設計")
    world.know("words", "words")
    found = await world.resolve(about("設計"), about("words"))
    assert payloads(found) == [
        {"slug": "words", "body": "words"},
        {"slug": "style", "body": "style"},
        {"slug": "設計", "body": "design"},
    ]
    assert {item.kind for item in found.attachments} == {"knowledge"}


async def test_a_name_kept_decomposed_on_the_disk_is_found(world: World) -> None:
    world.know("ガイド", "guide")
    assert payloads(await world.resolve(about("ガイド"))) == [{"slug": "ガイド", "body": "guide"}]


async def test_bad_knowledge_is_told_and_brings_nothing(world: World) -> None:
    world.know("half", "half", "there", "gone")
    world.know("there", "there")
    (world.memory / "knowledge/out.md").symlink_to(world.outside / "secret.txt")
    world.know("large", "x" * (ReferenceBounds().note + 1))
    found = await world.resolve(about("half"), about("nothing"), about("out"), about("large"), about("there"))
    assert payloads(found) == [{"slug": "there", "body": "there"}]
    words = [told.message for told in found.literal]
    assert "`half` requires `gone`" in words[0]
    assert "There is no knowledge `nothing`" in words[1]
    assert "symbolic link" in words[2]
    assert "at most" in words[3]
    assert SECRET not in str(found)


async def test_a_workflow_brings_its_knowledge_before_it(world: World) -> None:
    world.know("style", "be kind")
    world.workflow("review", "---\nname: Review\ndescription: looks\nrequires:\n  - style\n---\nLook at it.\n")
    found = await world.resolve(invoke("review"), Segment("text", " now"))
    assert payloads(found) == [{"slug": "style", "body": "be kind"}, {"slug": "review", "body": "Look at it.\n"}]
    assert found.attachments[1].body == '<workflow slug="review">\nLook at it.\n\n</workflow>'


async def test_a_skill_folder_is_a_workflow_and_says_where_it_is(world: World) -> None:
    world.write(".polypod/workflows/pdf/SKILL.md", "---\nname: pdf\n---\nRun make.py.")
    found = await world.resolve(invoke("pdf"))
    assert payloads(found) == [{"slug": "pdf", "body": "Run make.py.", "folder": ".polypod/workflows/pdf"}]


async def test_T10_a_bad_workflow_refuses_the_prompt_at_the_door_and_at_the_run(world: World) -> None:
    world.write("a.txt", "a")
    world.workflow("needs", "---\nrequires: gone\n---\nx")
    world.workflow("many", f"---\nrequires: [{', '.join(f'k{i}' for i in range(17))}]\n---\nx")
    for number in range(17):
        world.know(f"k{number}", "k")
    (world.workspace / ".polypod/workflows/out.md").symlink_to(world.outside / "secret.txt")
    cases = {
        "gone": "There is no workflow `gone`",
        "needs": "`needs` requires `gone`",
        "many": "requires more than 16",
        "out": "symbolic link",
    }
    for slug, words in cases.items():
        prompt = (at("a.txt"), invoke(slug))
        found = await world.library.resolve("m", prompt)
        at_door = await world.library.refusal(prompt)
        assert found.attachments == ()
        assert found.refused is not None
        assert found.refused == at_door
        assert (found.refused.index, words in found.refused.message) == (1, True), found.refused
        assert f"\\/{slug}" in found.refused.message


@pytest.mark.parametrize(
    "segment",
    [
        Segment("hologram", "x"),
        Segment("file_ref", "@a"),
        Segment("file_ref", "@a", {"path": ""}),
        Segment("file_ref", "@a", {"path": "a\0b"}),
        Segment("knowledge_ref", "#a", {"slug": "../a"}),
        Segment("workflow_invoke", "/a", {"slug": 7}),
    ],
)
async def test_T10_a_malformed_segment_refuses_the_prompt(world: World, segment: Segment) -> None:
    found = await world.resolve(Segment("text", "good"), segment)
    assert found.refused is not None
    assert found.refused.index == 1
    assert await world.library.refusal((Segment("text", "good"), segment)) == found.refused


async def test_what_one_prompt_brings_along_is_bounded(world: World) -> None:
    world.library = replace(world.library, bounds=ReferenceBounds(references=2, prompt=160, listing=2))
    for name in "abc":
        world.write(f"f/{name}", name * 50)
    found = await world.resolve(at("f/a"), at("f/b"), at("f/c"))
    assert [p["path"] for p in payloads(found)] == ["f/a", "f/b"]
    assert "2 references" in found.literal[0].message
    found = await world.resolve(at("f"), at("f/c"))
    assert payloads(found)[0] == {
        "path": "f/", "content": "a\nb", "note": "cut: the first 2 of 3 names; Glob shows the rest"
    }  # fmt: skip
    world.write("f/a", "x" * 200)
    found = await world.resolve(at("f/a"), at("f/c"))
    assert [p["path"] for p in payloads(found)] == ["f/c"]
    assert "160 bytes" in found.literal[0].message


async def test_completions_stay_inside_and_are_bounded(world: World) -> None:
    for name in ("src/main.py", "src/map.py", "src/Makefile", ".env", "docs/ガイド.md"):
        world.write(name, "x")
    world.know("style", "---\ndescription: how we write\n---\nx")
    world.workflow("review", "x")
    world.write(".polypod/workflows/pdf/SKILL.md", "---\nname: PDF work\n---\nx")
    (world.workspace / "out").symlink_to(world.outside)

    def found(sigil: str, prefix: str, limit: int = 20) -> tuple[list[tuple[str, str | None]], bool]:
        told = complete(world.library, sigil, prefix, limit, StopSign())  # type: ignore[arg-type]
        return [(c.target, c.description) for c in told.found], told.more

    assert found("@", "") == ([("docs/", None), ("src/", None)], False)
    assert found("@", "src/ma") == ([("src/main.py", None), ("src/map.py", None), ("src/Makefile", None)], False)
    assert found("@", "src/", 1) == ([("src/Makefile", None)], True)
    assert found("@", ".e") == ([(".env", None)], False)
    assert found("@", "docs/が") == ([], False)
    assert found("@", "docs/ガ") == ([("docs/ガイド.md", None)], False)
    for outside in ("out/", "../outside/", "home/", "gone/", "/etc/"):
        assert found("@", outside) == ([], False)
    assert found("#", "s") == ([("style", "how we write")], False)
    assert found("/", "") == ([("pdf", "PDF work"), ("review", None)], False)
    assert found("/", "", 1) == ([("pdf", "PDF work")], True)
