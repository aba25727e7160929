"""Shell: a command under the process guard."""

from __future__ import annotations

import asyncio
import os

from pydantic import Field

from actors.protocol.tools import Tool, ToolContext, ToolOutcome
from actors.tools.guard import Ended, GuardPool, NotStarted, Order, PoolClosed
from actors.tools.limits import ToolLimits
from actors.tools.output import OutputKeeper
from actors.tools.text import one_line
from actors.tools.typed import Arguments, ToolRefusal, typed_tool
from session_store.items import ResultStatus

_COMMAND_LIMIT = 100_000  # bytes; the system takes no argument over 128 KiB
_SHELLS = ("/bin/bash", "/bin/sh")
_NAMES = {2: "SIGINT", 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM"}


class Shell(Arguments):
    says = (
        "Run a command with bash in the workspace; you get its output (both streams, in order) and, unless it is 0, "
        "its exit code. Nothing can be typed in: standard input is empty. Each call is a shell of its own: folder and "
        "variables do not last, and processes left in the background end with the command. Calls of one reply run side "
        "by side: a command that needs what another call makes belongs in your next reply. Long output is cut in the "
        "middle and kept whole in a file whose path you are told."
    )
    command: str = Field(min_length=1, description="The command, as for `bash -c`.")
    timeout: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Seconds until it is ended (default 120)."
    )


def shell_tool(guard: GuardPool, limits: ToolLimits) -> Tool:
    async def shell(arguments: Shell, context: ToolContext) -> ToolOutcome:
        timeout = arguments.timeout if arguments.timeout is not None else limits.shell_timeout
        if timeout > limits.shell_timeout_max:
            raise ToolRefusal(f"`timeout` is at most {limits.shell_timeout_max:g} seconds.")
        order = Order((_shell(), "-c", _checked(arguments.command)), context.workspace, timeout)
        keeper = OutputKeeper(context, limits)
        started = asyncio.get_running_loop().time()
        try:
            ended = await guard.run(order, keeper.take)
        except PoolClosed:
            raise ToolRefusal("Shell was not run: this Pod is letting go of its tools.") from None
        except NotStarted as error:
            raise ToolRefusal(f"The shell could not be started: {error.strerror}.") from None
        except FileNotFoundError:
            raise ToolRefusal(f"The workspace {context.workspace} is not there (any more).") from None
        finally:
            keeper.close()
        seconds = asyncio.get_running_loop().time() - started
        return _outcome(arguments.command, order, ended, (keeper.finish(), seconds))

    return typed_tool(Shell, shell)


def _shell() -> str:
    return next((path for path in _SHELLS if os.access(path, os.X_OK)), "sh")


def _checked(command: str) -> str:
    if "\0" in command:
        raise ToolRefusal("`command` holds a NUL character.")
    try:
        size = len(command.encode("utf-8"))
    except UnicodeEncodeError:
        raise ToolRefusal("`command` holds half a character (a lone surrogate).") from None
    if size > _COMMAND_LIMIT:
        raise ToolRefusal(f"`command` has {size:,} bytes, at most {_COMMAND_LIMIT:,}: Write a script and run that.")
    return command


def _outcome(command: str, order: Order, ended: Ended, told: tuple[str, float]) -> ToolOutcome:
    output, seconds = told
    how = _said(ended, order)
    text = output if output.strip() else "[no output]"
    content = text if ended == Ended("exited", 0) else f"{text.rstrip()}\n[{how}]"
    summary = f"`{one_line(command, 80)}` {how} after {seconds:.1f} s"
    status: ResultStatus = "ok" if ended == Ended("exited", 0) else "error"
    return ToolOutcome(status, summary, content, {"exit_code": ended.code})


def _said(ended: Ended, order: Order) -> str:
    match ended.how:
        case "exited" if ended.code < 0:
            return f"was ended by signal {_NAMES.get(-ended.code, str(-ended.code))}"
        case "exited":
            return f"exited with code {ended.code}"
        case "timeout":
            return f"ran into its timeout of {order.timeout:g} s and was ended with all it had started"
        case "unfed":
            return "was ended: its Pod had no heartbeat for too long"
        case "lost":
            return "was ended: the process that guards it was killed"
        case "killed" | "orphaned":
            return "was ended: its Pod was stopped"
