"""Carries a lookup of references out for the driver: bounded in time, and answered whatever happens."""

from __future__ import annotations

import asyncio

from actors.pod.instructions import ResolveReferences
from actors.pod.referring import unreachable
from actors.pod.stimuli import ReferencesResolved, ResolvingAborted
from actors.protocol.references import References

LOOKUP_LIMIT = 15.0
"""Seconds that all references of one prompt may take: a disk that hangs must not hold the Pod."""


async def look_up(references: References, order: ResolveReferences) -> ReferencesResolved | ResolvingAborted:
    """What came of it; never raises. A cancel is answered as an abort."""
    try:
        async with asyncio.timeout(LOOKUP_LIMIT):
            resolved = await references.resolve(order.message_id, order.segments)
    except asyncio.CancelledError:
        return ResolvingAborted(order.message_id)
    except TimeoutError:
        resolved = unreachable(order.segments, f"it could not be read within {LOOKUP_LIMIT:g} s.")
    except Exception as error:  # a defect of ours must not hang the run (case L07)
        resolved = unreachable(order.segments, f"looking it up failed: {type(error).__name__}: {error}")
    return ReferencesResolved(order.message_id, resolved)
