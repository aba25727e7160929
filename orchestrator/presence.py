"""Which Pod processes live on this machine: each holds a shared lock on one file, and the kernel frees it at its death.

Whoever can have the lock alone knows that no such process is left: that is a proof of death (DESIGN law 3).
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

LOCK_NAME = "pods.lock"


def be_present(home: Path) -> int:
    """Hold the shared lock until this process ends; its children do not inherit it. Returns the descriptor."""
    descriptor = _open(home)
    with suppress(OSError):  # a file system without locks: nobody can have it alone either, so nothing is proven
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def nobody_present(home: Path) -> bool:
    """Whether no process holds it. On a file system without locks: False, which costs a wait and nothing else."""
    try:
        descriptor = _open(home)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _open(home: Path) -> int:
    home.mkdir(parents=True, exist_ok=True)
    return os.open(home / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
