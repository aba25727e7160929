"""The stores that answer one contract."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from session_store.backends.memory import MemoryStore
from session_store.backends.postgres import PostgresStore
from session_store.backends.sqlite import SqliteStore
from session_store.requests import Store
from tests.support.postgres import PostgresServer
from tests.support.store import Ticks


def _postgres(request: pytest.FixtureRequest) -> Store:
    server: PostgresServer = request.getfixturevalue("postgres")
    server.wipe()
    return PostgresStore(server.url(), Ticks())


MAKERS: dict[str, Callable[[pytest.FixtureRequest, Path], Store]] = {
    "memory": lambda _, __: MemoryStore(Ticks()),
    "postgres": lambda request, _: _postgres(request),
    "sqlite": lambda _, folder: SqliteStore(folder / "store.db", Ticks()),
}


@pytest.fixture(params=sorted(MAKERS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = MAKERS[request.param](request, tmp_path)
    yield made
    close = getattr(made, "close", None)
    if close is not None:
        close()
