"""Carries a compaction out for the driver: bounded in time, and answered whatever happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from actors.pod.stimuli import Compacted, CompactionAborted, CompactionFailed, ExtractionFixed
from actors.protocol.compaction import CompactionError, CompactionOrder, Compactor

log = logging.getLogger("polypod.pod")

FIX_LIMIT = 10.0
"""Seconds that a compaction waits for the extractor to take its range. Without it the compaction goes on all the same:
the entries stay in the log, and a range may be taken of them later."""


async def fix(fixing: Awaitable[bool], compaction_id: str) -> ExtractionFixed | CompactionAborted:
    """Never raises. A cancel is answered as an abort."""
    try:
        await asyncio.wait_for(fixing, FIX_LIMIT)
    except asyncio.CancelledError:
        return CompactionAborted(compaction_id)
    except TimeoutError:
        pass  # see `FIX_LIMIT`
    except Exception:
        log.warning("compaction %s goes on without the extractor's range", compaction_id, exc_info=True)
    return ExtractionFixed(compaction_id)


async def compact(
    compactor: Compactor, order: CompactionOrder, fresh: Callable[[], Awaitable[None]]
) -> Compacted | CompactionFailed | CompactionAborted:
    """Never raises. `fresh` returns when the lease is known to hold (law 3). A cancel is answered as an abort."""
    try:
        await fresh()
        return Compacted(order.compaction_id, await compactor.compact(order))
    except asyncio.CancelledError:
        return CompactionAborted(order.compaction_id)
    except CompactionError as error:
        return CompactionFailed(order.compaction_id, error.type, error.message)
    except Exception as error:  # a defect of ours must not hang the Pod (case L07)
        return CompactionFailed(order.compaction_id, "internal", f"{type(error).__name__}: {error}")
