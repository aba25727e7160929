"""Listings of a home that nobody owns: the same JSON as the gateway's, read from the SQLite store itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.cli.check import store_file
from orchestrator.cli.failure import CommandError
from orchestrator.cli.forest import Pod
from orchestrator.gateway.views import entry_view, inbox_view, pod_view
from orchestrator.home import Home
from session_store.backends.sqlite_reader import SqliteReader
from session_store.codec import decode_entry
from session_store.errors import UnreadableEntry
from session_store.reading import damaged
from session_store.requests import PodRow, Query, Read

PAGE = 500


class StoreReader:
    """A `Reader` over the store file. No Pod has an owner here, whatever an owner that was killed left behind."""

    def __init__(self, home: Home) -> None:
        path = store_file(home)
        self._store = SqliteReader(path) if path.exists() else None

    def pods(self, **conditions: Any) -> list[Pod]:
        rows = self._rows(Query(limit=PAGE, **conditions))
        children: dict[str, list[str]] = {}
        for row in rows if not conditions else self._rows(Query(limit=PAGE)):
            if row.parent_id is not None:
                children.setdefault(row.parent_id, []).append(row.id)
        return [_view(row, children.get(row.id, ())) for row in rows]

    def pod(self, pod_id: str) -> Pod:
        rows = self._rows(Query(ids=(pod_id,)))
        if not rows:
            raise CommandError(f"there is no Pod {pod_id}")
        return _view(rows[0], [row.id for row in self._rows(Query(parent=pod_id, limit=PAGE))])

    def log(self, pod_id: str, after: int, limit: int) -> tuple[Sequence[Mapping[str, Any]], int]:
        if self._store is None:
            return (), 0
        page = self._store.execute(Read(pod_id, after, limit))
        entries = []
        for stored in page.entries:
            try:
                entries.append(entry_view(decode_entry(stored.body, stored.seq, stored.ts)))
            except UnreadableEntry as error:
                raise damaged(pod_id, error.seq, error.reason) from error
        return entries, page.head

    def questions(self) -> Sequence[Mapping[str, Any]]:
        questions: Sequence[Mapping[str, Any]] = inbox_view(self._rows(Query(limit=PAGE, waiting_on_person=True)))[
            "questions"
        ]
        return questions

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _rows(self, query: Query) -> list[PodRow]:
        if self._store is None:
            return []
        rows: list[PodRow] = []
        while True:
            page = self._store.execute(query)
            rows += page.rows
            if page.next is None:
                return rows
            query = replace(query, cursor=page.next)


def open_store_reader(path: Path) -> SqliteReader:
    """Raises `CommandError` when there is no store yet."""
    if not path.exists():
        raise CommandError(f"there is no store at {path}")
    return SqliteReader(path)


def _view(row: PodRow, children: Sequence[str]) -> Pod:
    return {**pod_view(row, children), "owner": None}
