"""How a command ends when it cannot do what was asked."""

from __future__ import annotations

import errno

FINISHED = 0
FAILED = 1
USAGE = 2
WAITING = 3
INTERRUPTED = 130


class CommandError(Exception):
    """Ends the command: `message` (one or two plain lines) goes to stderr, `exit_code` to the shell."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class UsageError(CommandError):
    """Wrong use or settings."""

    def __init__(self, message: str) -> None:
        super().__init__(message, USAGE)


class GatewayProblem(CommandError):
    """The gateway refused. `type` is the short problem type (`not-found, busy, …`), `status` the HTTP one."""

    def __init__(self, type_: str, status: int, message: str) -> None:
        super().__init__(message, USAGE if type_ == "invalid" else FAILED)
        self.type = type_
        self.status = status


class OwnerLost(CommandError):
    """The owner of the home does not answer (any more)."""


def explained(error: Exception) -> tuple[int, str]:
    """Exit code and words. Errors of other packages go by name, so that none need be imported to know them."""
    match type(error).__name__:
        case "SettingsError" | "HomeError" | "CannotListen" | "NotLoopback" | "UnknownStoreUrl":
            return USAGE, str(error)
        case "StoreDamaged":
            return FAILED, f"{error}\n`polypod check` says what is damaged; `polypod export` saves what can be read"
        case "ClusterError" | "LockHeld" | "NewerSchema" | "StoreUnavailable" | "UnknownSession":
            return FAILED, str(error)
        case "OSError" if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return FAILED, f"no space left on device{f' for {error.filename}' if error.filename else ''}"
        case name:
            return FAILED, f"unexpected {name}: {error}\nrun again with --debug for the whole story"
