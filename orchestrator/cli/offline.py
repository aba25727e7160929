"""Listings of a home that nobody owns: the same JSON as the gateway's, read from the store itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from actors.protocol.task_log import TaskFold
from actors.protocol.tasks import face_in
from orchestrator.cli.embedding import settings_of
from orchestrator.cli.failure import CommandError
from orchestrator.cli.forest import Pod
from orchestrator.gateway.views import entry_view, inbox_view, pod_view, tasks_view
from orchestrator.home import VERSION, Home
from orchestrator.metrics.overview import overview
from orchestrator.metrics.sample import Sample
from orchestrator.usage import GROUPINGS, By, UsageFold, below, report
from session_store.entries import LogEntry
from session_store.errors import StoreDamaged, UnreadableEntry
from session_store.opening import AnyReader, open_reader, shown
from session_store.reading import decoded
from session_store.requests import Census, Counters, PodRow, Query, Read
from session_store.rows import CensusFigures

PAGE = 500


class StoreReader:
    """A `Reader` over the store itself. No Pod has an owner here, whatever an owner that was killed left behind."""

    def __init__(self, home: Home) -> None:
        settings = settings_of(home)
        self._store = open_reader(settings.store_url)
        self._prices = settings.prices()

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
        entries, head = self._page(pod_id, after, limit)
        return [entry_view(entry) for entry in entries], head

    def tasks(self, pod_id: str) -> Mapping[str, Any]:
        rows = self._rows(Query(ids=(pod_id,)))
        face = face_in(rows[0].config) if rows else "none"
        fold, seq = TaskFold(), 0
        while True:
            entries, head = self._page(pod_id, seq, PAGE)
            for entry in entries:
                fold.apply(entry)
                seq = entry.seq
            if not entries or seq >= head:
                return tasks_view(fold.now.tasks, face, seq)

    def usage(self, by: str, pod_id: str | None) -> Mapping[str, Any]:
        rows = self._rows(Query(limit=PAGE))
        if pod_id is not None:
            rows = below(rows, pod_id)
        sessions, unread = [], []
        for row in rows:
            fold = self._spent(row)
            unread += [row.id] if fold is None else []
            sessions += [] if fold is None else [(row, fold)]
        grouped: By = next(known for known in GROUPINGS if known == by)
        return {**report(grouped, sessions, self._prices), "unread": unread}

    def top(self) -> Mapping[str, Any]:
        now = time.time_ns() // 1_000_000
        if self._store is None:
            return overview(Sample(now, VERSION, {}, CensusFigures((), (), ())))
        counters, census = self._store.execute(Counters()), self._store.execute(Census())
        return overview(Sample(now, VERSION, counters.values, census))

    def _spent(self, row: PodRow) -> UsageFold | None:
        """None when the log is damaged."""
        assert self._store is not None
        fold = UsageFold()
        try:
            while fold.head < row.head and (page := self._store.execute(Read(row.id, fold.head, PAGE)).entries):
                fold.take(page)
        except (StoreDamaged, UnreadableEntry):
            return None
        return fold

    def questions(self) -> Sequence[Mapping[str, Any]]:
        questions: Sequence[Mapping[str, Any]] = inbox_view(self._rows(Query(limit=PAGE, waiting_on_person=True)))[
            "questions"
        ]
        return questions

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _page(self, pod_id: str, after: int, limit: int) -> tuple[Sequence[LogEntry], int]:
        if self._store is None:
            return (), 0
        page = self._store.execute(Read(pod_id, after, limit))
        return decoded(pod_id, page.entries), page.head

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


def open_store_reader(url: str) -> AnyReader:
    """Raises `CommandError` when there is no store yet."""
    reader = open_reader(url)
    if reader is None:
        raise CommandError(f"there is no store at {shown(url)}")
    return reader


def _view(row: PodRow, children: Sequence[str]) -> Pod:
    return {**pod_view(row, children), "owner": None}
