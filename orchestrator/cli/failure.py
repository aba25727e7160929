"""How a command ends when it cannot do what was asked."""

from __future__ import annotations

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
