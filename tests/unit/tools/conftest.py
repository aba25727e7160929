from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.tool_calls import Bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    await bench.toolbox.close()
    assert bench.guard.live == 0
