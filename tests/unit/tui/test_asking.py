"""Calls of the screen: whatever becomes of one, the screen hears of it and may ask again."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any, cast

import pytest
from textual.app import App

from orchestrator.cli.failure import CommandError
from orchestrator.tui.asking import Asking


class Screen:
    """Stands for the app: carries what is called later out when `turn` is called."""

    def __init__(self) -> None:
        self.is_running = True
        self._later: queue.Queue[tuple[Callable[..., None], tuple[Any, ...]]] = queue.Queue()

    def call_later(self, call: Callable[..., None], *args: Any) -> None:
        self._later.put((call, args))

    def turn(self) -> None:
        call, args = self._later.get(timeout=20)
        call(*args)


def fails(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "words"),
    [(CommandError("no answer"), "no answer"), (KeyError("pods"), "the answer makes no sense here (KeyError: 'pods')")],
)
def test_a_call_that_fails_is_told_and_may_be_made_again(error: Exception, words: str) -> None:
    screen, said, came = Screen(), [], []
    asking = Asking(cast("App[Any]", screen), said.append)
    asking.ask(lambda: fails(error), came.append, alone="look")
    screen.turn()
    assert (said, came) == ([words], [])
    asking.ask(lambda: 7, came.append, alone="look")
    screen.turn()
    assert came == [7]
