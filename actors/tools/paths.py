"""Opening a path that was resolved before, without following any link. Standard library only.

`real` in this module is a resolved absolute path: no part of it was a symbolic link when it was resolved. Each function
walks it part by part and follows nothing, so a link put there since is met (`LinkMet`), not followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # NONBLOCK: a FIFO must not hang the caller


class LinkMet(OSError):
    """A part of the path is a symbolic link now."""


class NotAFile(OSError):
    """The path is there and is no regular file."""


def within(path: str, folder: str) -> bool:
    """Whether a resolved path is the folder or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


@contextmanager
def parent_of(real: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """A descriptor of the parent folder and the last name; with `create` missing folders are made."""
    folder, name = os.path.split(real)
    fd = os.open("/", _FOLDER)
    try:
        for part in filter(None, folder.split("/")):
            try:
                below = _step(part, fd, _FOLDER)
            except FileNotFoundError:
                if not create:
                    raise
                _make(part, fd)
                below = _step(part, fd, _FOLDER)
            os.close(fd)
            fd = below
        yield fd, name
    finally:
        os.close(fd)


def open_file(real: str) -> int:
    """A descriptor of a regular file for reading. Raises `LinkMet`, `NotAFile`, `OSError`."""
    with parent_of(real) as (folder, name):
        fd = _step(name or ".", folder, _FILE)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise NotAFile(errno.EINVAL, "not a regular file", real)


def list_folder(real: str) -> list[tuple[str, bool]]:
    """The entries of a folder as (name, is it a folder), in the order of the disk; links are never followed.

    Raises `LinkMet`, `OSError`.
    """
    with parent_of(real) as (folder, name):
        fd = _step(name or ".", folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with os.scandir(fd) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    finally:
        os.close(fd)


def stat_file(real: str) -> os.stat_result | None:
    """The status of what stands at `real` itself, or None when nothing does. Raises `LinkMet`."""
    try:
        with parent_of(real) as (folder, name):
            found = os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise LinkMet(errno.ELOOP, "a symbolic link", real)
    return found


def _step(name: str, folder: int, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(name, folder):
            raise LinkMet(errno.ELOOP, "a symbolic link", name) from error
        raise


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _make(name: str, folder: int) -> None:
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return
