"""Scopes as sets of folders: what lies in what, and what meets what.

Paths are taken as they are written, made absolute by the workspace. Whoever asks for a scope resolves links first; the
tools check the real path again when they touch it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from session_store.rows import Scope


def resolved(scope: Scope, workspace: str) -> Scope:
    """The scope with absolute, normal paths."""
    return Scope(_absolute(scope.read, workspace), _absolute(scope.write, workspace))


def outside(scope: Scope, whole: Scope) -> str | None:
    """The first path of `scope` that `whole` does not hold (write implies read), or None. Both are resolved."""
    for path in scope.write:
        if not _in_any(path, whole.write):
            return path
    for path in scope.read:
        if not _in_any(path, (*whole.read, *whole.write)):
            return path
    return None


def overlap(mine: Iterable[str], theirs: Iterable[str]) -> str | None:
    """The first path of `mine` that lies in, or holds, one of `theirs`. All are resolved."""
    others = tuple(theirs)
    return next((p for p in mine if any(_holds(p, o) or _holds(o, p) for o in others)), None)


def _absolute(paths: Iterable[str], workspace: str) -> tuple[str, ...]:
    return tuple(posixpath.normpath(posixpath.join("/", workspace, path)) for path in paths)


def _in_any(path: str, folders: Iterable[str]) -> bool:
    return any(_holds(folder, path) for folder in folders)


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
