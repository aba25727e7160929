"""A newcomer finds every page: from the README each is reached by links, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_NAMED = re.compile(r"\bdocs/[\w/.-]+\.md\b")


def links(page: Path) -> list[Path]:
    """What the page links to here, and the pages that it names by their paths."""
    text = page.read_text(encoding="utf-8")
    linked = [page.parent / link for link in _LINK.findall(text) if "://" not in link]
    return [path.resolve() for path in (*linked, *(ROOT / name for name in _NAMED.findall(text)))]


def test_every_page_is_reached_from_the_readme() -> None:
    found, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page not in found and page.suffix == ".md" and page.exists():
            found.add(page)
            left += links(page)
    assert sorted(set((ROOT / "docs").rglob("*.md")) - found) == []


def test_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    dead = [f"{page.name}: {link}" for page in pages for link in links(page) if not link.exists()]
    assert dead == []
