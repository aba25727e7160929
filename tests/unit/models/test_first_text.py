"""When the first text of a reply was shown."""

from typing import Any

from actors.models.first_text import FirstText
from actors.models.timing import Timing


class Heard:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def text(self, *said: Any) -> None:
        self.calls.append(("text", *said))

    def retry(self, *said: Any) -> None:
        self.calls.append(("retry", *said))

    def discard(self, *said: Any) -> None:
        self.calls.append(("discard", *said))


def test_the_first_text_is_timed_and_everything_goes_on() -> None:
    times = iter((10.0, 10.25))
    heard = Heard()
    first = FirstText(heard, Timing(monotonic=lambda: next(times)))
    first.retry("r", 2, 0.5, "busy")
    first.discard("r")
    assert first.ms is None
    first.text("r", "r.1.0", "hel")
    first.text("r", "r.1.0", "lo")
    assert first.ms == 250
    assert heard.calls == [
        ("retry", "r", 2, 0.5, "busy"),
        ("discard", "r"),
        ("text", "r", "r.1.0", "hel"),
        ("text", "r", "r.1.0", "lo"),
    ]
