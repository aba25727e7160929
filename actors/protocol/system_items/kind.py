"""What a kind of SystemItem is: a name, a typed payload, and the one function that makes the text a model sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from session_store.codec import from_plain, to_plain
from session_store.items import Json, SystemItem

PayloadT = TypeVar("PayloadT")


@dataclass(frozen=True, slots=True)
class ItemKind(Generic[PayloadT]):
    """`payload` is a frozen dataclass of plain fields; `render` is pure, so that equal payloads give equal bodies.

    An `attachment` belongs to a prompt: it stands right after the `user_input` and is withdrawn with it.
    """

    name: str
    payload: type[PayloadT]
    render: Callable[[PayloadT], str]
    attachment: bool = False

    def item(self, item_id: str, payload: PayloadT) -> SystemItem:
        """The item that is committed; `item_id` is unique in the session."""
        return SystemItem(self.name, item_id, to_plain(payload), self.render(payload))


class ItemKinds:
    """A registry: a fixed set of kinds by name. Whoever adds one makes a larger registry (`adding`)."""

    __slots__ = ("_kinds",)

    def __init__(self, *kinds: ItemKind[Any]) -> None:
        """Raises ValueError for two kinds of one name."""
        self._kinds = {kind.name: kind for kind in kinds}
        if len(self._kinds) != len(kinds):
            raise ValueError(f"two kinds of SystemItem have one name: {sorted(k.name for k in kinds)}")

    def __iter__(self) -> Iterator[ItemKind[Any]]:
        return iter(self._kinds.values())

    def get(self, name: str) -> ItemKind[Any] | None:
        return self._kinds.get(name)

    def adding(self, kind: ItemKind[Any]) -> ItemKinds:
        """This registry and one more kind."""
        return ItemKinds(*self._kinds.values(), kind)

    def payload(self, item: SystemItem) -> Any | None:
        """The item's typed payload; None for a kind of a newer writer or a payload that has another shape. Such an
        item is kept and shown by its `kind` and `body`."""
        kind = self._kinds.get(item.kind)
        if kind is None:
            return None
        try:
            return from_plain(kind.payload, item.payload)
        except ValidationError:
            return None


def framed(tag: str, facts: dict[str, Json], text: str) -> str:
    """`text` between tags. A closing tag inside the text is broken up, so that content cannot end its own frame."""
    attributes = "".join(f' {k}="{_attribute(v)}"' for k, v in facts.items() if v is not None)
    inside = text.replace(f"</{tag}", f"<\\/{tag}")
    return f"<{tag}{attributes}>\n{inside}\n</{tag}>"


def _attribute(value: Json) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace('"', "'").replace("\n", " ")
