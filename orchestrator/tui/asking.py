"""Calls of the screen to the gateway: each by a thread, its answer back on the screen's own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from textual.app import App

from orchestrator.cli.failure import CommandError

T = TypeVar("T")


class Asking:
    """`say` is told of errors, unless the call is `quiet`."""

    def __init__(self, app: App[Any], say: Callable[[str], None]) -> None:
        self._app = app
        self._say = say
        self._alone: set[str] = set()

    def ask(
        self,
        call: Callable[[], T],
        came: Callable[[T], None],
        *,
        failed: Callable[[CommandError], None] | None = None,
        alone: str | None = None,
        quiet: bool = False,
    ) -> None:
        """Make the call; of those with the same `alone` only one at a time, the others are left out."""
        if alone is not None:
            if alone in self._alone:
                return
            self._alone.add(alone)

        def ended(answer: T | CommandError) -> None:
            if alone is not None:
                self._alone.discard(alone)
            if not isinstance(answer, CommandError):
                came(answer)
                return
            if failed is not None:
                failed(answer)
            if not quiet:
                self._say(answer.message)

        def work() -> None:
            try:
                answer: T | CommandError = call()
            except CommandError as error:
                answer = error
            except Exception as error:  # an answer in no form that is known: told, and asked again like any other
                answer = CommandError(f"the answer makes no sense here ({type(error).__name__}: {error})")
            if self._app.is_running:
                self._app.call_later(ended, answer)

        threading.Thread(target=work, name="polypod-ask", daemon=True).start()
