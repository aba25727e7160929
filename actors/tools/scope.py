"""Which paths a tool may touch. Every path is judged by where it really leads, links of any parent included."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from actors.protocol.tools import ToolContext
from actors.tools.paths import within
from actors.tools.text import printable
from actors.tools.typed import ToolRefusal
from session_store.requests import Scope

Access = Literal["read", "write"]


class OutOfReach(ToolRefusal):
    """A path outside the scope, or in a folder that general tools leave alone. Says why, shows nothing of it."""

    status = "denied"


@dataclass(frozen=True, slots=True)
class Reach:
    """The folders of one Pod, all resolved. `forbidden` may not be written, `hidden` not even read (save `spill`);
    `lent` are a child's to write for now."""

    workspace: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    forbidden: tuple[str, ...]
    hidden: tuple[str, ...]
    spill: str = ""
    lent: tuple[str, ...] = ()
    judged: str | None = None
    """The one path that the permission rules were matched with, if there are any."""

    @classmethod
    def of(cls, context: ToolContext) -> Reach:
        reach = cls.reading(str(context.workspace), context.scope, context.hidden)
        spill = os.path.realpath(context.spill)
        forbidden = _real(context.forbidden)
        return replace(reach, forbidden=forbidden, spill=spill, lent=context.lent, judged=context.judged)

    @classmethod
    def reading(cls, workspace: str, scope: Scope | None, hidden: tuple[Path, ...]) -> Reach:
        """For who only reads. `workspace` is resolved."""
        write = (workspace,) if scope is None else _roots(scope.write, workspace)
        read = () if scope is None else _roots(scope.read, workspace)
        return cls(
            workspace=workspace,
            read=tuple(dict.fromkeys((*read, *write))),
            write=write,
            forbidden=(),
            hidden=_real(hidden),
        )

    def resolve(self, path: str, access: Access) -> str:
        """The real path that `path` leads to. Raises `OutOfReach` when it may not be touched that way."""
        lexical = absolute(path, self.workspace)
        real = os.path.realpath(lexical)
        self._as_judged(real, path)
        self.check(real, access, path, linked=real != os.path.normpath(lexical))
        return real

    def check(self, real: str, access: Access, path: str, *, linked: bool = False) -> None:
        """Judge a resolved path; `path` is how the model wrote it, `linked` whether links led there."""
        if access == "read" and self.spill and within(real, self.spill):
            return
        for folder in (*self.hidden, *(self.forbidden if access == "write" else ())):
            if within(real, folder):
                raise OutOfReach(
                    f"`{printable(path)}` is in a folder that belongs to polypod itself (its log, memory or staging): "
                    f"general tools may not {access} there. It changes only through its own doors."
                )
        roots = self.write if access == "write" else self.read
        if not any(within(real, root) for root in roots):
            way = "leads through a symbolic link to a place that is" if linked else "is"
            raise OutOfReach(
                f"`{printable(path)}` {way} outside the folders this Pod may {access}: {self._said(roots)}. "
                "Nothing there was touched."
            )
        if access == "write" and any(within(real, folder) for folder in self.lent):
            raise OutOfReach(
                f"`{printable(path)}` is in a folder that you gave to a child: it alone writes there until it is done."
            )

    def hides(self, real: str) -> bool:
        """Whether a resolved path is in a folder that nobody may read."""
        return any(within(real, folder) for folder in self.hidden)

    def shows(self, real: str) -> bool:
        """Whether a resolved path may be read."""
        return not self.hides(real) and any(within(real, root) for root in self.read)

    def below(self, path: str) -> tuple[str, tuple[str, ...]]:
        """The real path of a folder to search, and the readable folders in it (itself, or those of the scope below)."""
        lexical = absolute(path, self.workspace)
        real = os.path.realpath(lexical)
        self._as_judged(real, path)
        roots = tuple(root for root in self.read if within(root, real) and root != real)
        if not roots or any(within(real, root) for root in self.read):
            self.check(real, "read", path, linked=real != os.path.normpath(lexical))
            return real, (real,)
        return real, roots

    def _as_judged(self, real: str, path: str) -> None:
        if self.judged is not None and real != self.judged:
            raise OutOfReach(f"`{printable(path)}` leads elsewhere than when its permission was looked at: try again.")

    def shown(self, real: str) -> str:
        """A path as the model is told it: relative to the workspace when in it."""
        if real == self.workspace:
            return "."
        return printable(os.path.relpath(real, self.workspace) if within(real, self.workspace) else real)

    def _said(self, roots: tuple[str, ...]) -> str:
        if not roots:
            return "none"
        return ", ".join("the workspace" if root == self.workspace else f"`{self.shown(root)}`" for root in roots)


def absolute(path: str, workspace: str) -> str:
    """The path as written, absolute and without `.` and `..`. Raises `ToolRefusal` for what can be no path."""
    if not path:
        raise ToolRefusal("the path is empty")
    if "\0" in path:
        raise ToolRefusal("the path holds a NUL character")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise ToolRefusal("the path holds half a character (a lone surrogate)") from None
    # Not normpath: `link/..` is where the link leads, and up from there.
    return path if os.path.isabs(path) else os.path.join(workspace, path)


def _roots(folders: tuple[str, ...], workspace: str) -> tuple[str, ...]:
    """The real folders of a scope. One that is written as inside the workspace must also really be inside it."""
    roots = []
    for folder in folders:
        real = os.path.realpath(os.path.join(workspace, folder))
        if within(os.path.normpath(os.path.join(workspace, folder)), workspace) and not within(real, workspace):
            continue
        roots.append(real)
    return tuple(dict.fromkeys(roots))


def _real(folders: tuple[Path, ...]) -> tuple[str, ...]:
    return tuple(os.path.realpath(folder) for folder in folders)
