"""What can go wrong with the log.

    StoreError
    ├── UnreadableEntry       one stored entry cannot be read (damage, or a newer codec)
    ├── StoreUnavailable      the store gave no answer or could not commit (disk full, locked); nothing was written
    └── Refused               the store answered, and the answer is no; nothing was written
        ├── StaleEpoch        a newer incarnation owns the session: stop
        ├── HeadMoved         someone wrote history: stop
        ├── ConditionFailed   the condition of the request does not hold (`reason` says which)
        ├── UnknownSession
        ├── StoreDamaged      the session's log is damaged (`session`, `seq`, `reason`)
        └── NewerSchema       the store was written by a newer polypod

Every refusal is data (`code`, `message`, `detail`), so that it crosses process borders unchanged.
"""

from __future__ import annotations

from typing import Any, ClassVar


class StoreError(Exception):
    """Root of this package's errors."""


class UnreadableEntry(StoreError):
    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(f"entry {seq}: {reason}")
        self.seq = seq
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return (UnreadableEntry, (self.seq, self.reason))


class StoreUnavailable(StoreError):
    """Nothing was committed, or it is not known whether it was: the same request may be sent again by its id."""


class Refused(StoreError):
    """The store said no. `detail` is plain data that names what the refusal is about."""

    code: ClassVar[str] = "refused"

    def __init__(self, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail

    def __reduce__(self) -> tuple[Any, ...]:
        return (_remake, (self.code, self.message, self.detail))


class StaleEpoch(Refused):
    code = "stale_epoch"


class HeadMoved(Refused):
    code = "head_moved"


class ConditionFailed(Refused):
    """`detail["reason"]` is one of `name_taken, limit, scope, run_over, ended, already_answered, question_closed, busy,
    not_running, head_moved, rewound, pending, unknown_choice, conflict, invalid`."""

    code = "condition_failed"

    @property
    def reason(self) -> str:
        return str(self.detail.get("reason", ""))


class UnknownSession(Refused):
    code = "unknown_session"


class StoreDamaged(Refused):
    code = "store_damaged"


class NewerSchema(Refused):
    code = "newer_schema"


REFUSALS: dict[str, type[Refused]] = {
    c.code: c for c in (StaleEpoch, HeadMoved, ConditionFailed, UnknownSession, StoreDamaged, NewerSchema, Refused)
}


def _remake(code: str, message: str, detail: dict[str, Any]) -> Refused:
    return REFUSALS[code](message, **detail)
