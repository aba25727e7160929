"""The kinds of SystemItem that this version writes and reads. A new kind is one file and one row here."""

from __future__ import annotations

from actors.protocol.system_items.file_attachment import FILE_ATTACHMENT
from actors.protocol.system_items.interrupt import INTERRUPT
from actors.protocol.system_items.kind import ItemKinds
from actors.protocol.system_items.knowledge import KNOWLEDGE
from actors.protocol.system_items.legacy import LEGACY
from actors.protocol.system_items.notification import NOTIFICATION
from actors.protocol.system_items.pod_event import POD_EVENT
from actors.protocol.system_items.reminder import REMINDER
from actors.protocol.system_items.summary import SUMMARY
from actors.protocol.system_items.task_snapshot import TASK_SNAPSHOT
from actors.protocol.system_items.workflow import WORKFLOW

KINDS = ItemKinds(
    NOTIFICATION,
    POD_EVENT,
    FILE_ATTACHMENT,
    KNOWLEDGE,
    WORKFLOW,
    REMINDER,
    INTERRUPT,
    TASK_SNAPSHOT,
    SUMMARY,
    LEGACY,
)
