"""The stores that answer one contract."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from session_store.backends.memory import MemoryStore
from session_store.backends.sqlite import SqliteStore
from session_store.requests import Store
from tests.support.store import Ticks

MAKERS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(Ticks()),
    "sqlite": lambda folder: SqliteStore(folder / "store.db", Ticks()),
}


@pytest.fixture(params=sorted(MAKERS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = MAKERS[request.param](tmp_path)
    yield made
    close = getattr(made, "close", None)
    if close is not None:
        close()
