"""What all tests share: how hard Hypothesis tries, and which tests wait for the long run."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.postgres import PostgresServer, binaries

LONG = os.environ.get("POLYPOD_TEST_SIZE", "short") == "long"

# Derandomized: the same code gives the same verdict. The long run looks at more examples.
settings.register_profile("short", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("short"), max_examples=1_000)
settings.load_profile("long" if LONG else "short")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `long` run only at POLYPOD_TEST_SIZE=long."""
    if LONG:
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="long: make test-long"))


def pytest_configure() -> None:
    """A shell's background job is started with SIGINT ignored, and so would be every process that a test interrupts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server, one for all tests."""
    folder = binaries()
    if folder is None:
        pytest.skip("PostgreSQL is not installed (Debian package `postgresql`; scripts/test installs it as root)")
    server = PostgresServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.close()
