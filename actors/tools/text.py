"""Bytes as text and text cut to size. Standard library only: the search worker imports it too."""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Callable

SAMPLE = 64 * 1024
"""Bytes that are enough to tell a file's encoding."""

_ALLOWED_CONTROLS = frozenset("\t\n\r\f\b\x1b\x1a")
_CONTROLS = bytes(c for c in range(32) if chr(c) not in _ALLOWED_CONTROLS)


def detect(sample: bytes) -> str | None:
    """The encoding of text that starts with `sample`, or None when it is not text.

    Knows UTF-8 (also slightly damaged), UTF-16 and UTF-32, and what Japanese files come in besides: Shift_JIS, EUC-JP,
    ISO-2022-JP. Any other text without control characters reads as Latin-1. The mark at the start of a UTF-16 or
    UTF-32 file stays in its text as U+FEFF, so that text and bytes map to each other exactly.
    """
    for mark, name in _MARKS:
        if sample.startswith(mark):
            return name
    if b"\0" in sample:
        return next((name for name in ("utf-16-le", "utf-16-be") if _reads_as(sample, name, _is_plausible)), None)
    if b"\x1b$" in sample and _reads_as(sample, "iso2022_jp", lambda text: True):
        return "iso2022_jp"
    if _is_utf8(sample):
        return "utf-8"
    japanese = [name for name in ("euc_jp", "cp932") if _reads_as(sample, name, _has_no_controls)]
    if japanese:
        return max(japanese, key=lambda name: _familiar(_decode(sample, name, "strict") or ""))
    return "latin-1" if _has_no_controls(sample.decode("latin-1")) else None


def decoder(encoding: str) -> codecs.IncrementalDecoder:
    """An incremental decoder that replaces what it cannot read."""
    return codecs.getincrementaldecoder(encoding)("replace")


def cut_end(text: str, limit: int) -> tuple[str, int]:
    """The first `limit` characters and how many were dropped."""
    return text[:limit], max(0, len(text) - limit)


def cut_middle(text: str, limit: int) -> tuple[str, str, int]:
    """Head and tail of together `limit` characters, and how many between them were dropped (tail empty if none)."""
    if len(text) <= limit:
        return text, "", 0
    tail = limit // 2
    head = limit - tail
    return text[:head], text[len(text) - tail :] if tail else "", len(text) - limit


def one_line(text: str, limit: int = 200) -> str:
    """The text on one line, white space folded, cut with an ellipsis."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def sizes(count: int) -> str:
    """A number of bytes for people: exact, and rounded when large."""
    exact = f"{count:,} bytes" if count != 1 else "1 byte"
    if count < 10_000:
        return exact
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{exact} ({count / size:.1f} {unit})"
    return exact


def visible(character: str) -> bool:
    """Whether it shows: spaces, controls and characters of no width do not."""
    return unicodedata.category(character)[0] not in "ZC"


def printable(name: str) -> str:
    """A file name as valid text: bytes that are not UTF-8 are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def _decode(sample: bytes, encoding: str, errors: str) -> str | None:
    """The sample's text (a character cut at its end left out), or None when it does not decode."""
    try:
        return codecs.getincrementaldecoder(encoding)(errors).decode(sample)
    except UnicodeDecodeError:
        return None


def _reads_as(sample: bytes, encoding: str, accept: Callable[[str], bool]) -> bool:
    text = _decode(sample, encoding, "strict")
    return text is not None and accept(text)


def _is_utf8(sample: bytes) -> bool:
    text = _decode(sample, "utf-8", "replace") or ""
    bad = text.count("\ufffd")
    if bad == 0:
        return (len(sample) - len(sample.translate(None, _CONTROLS))) * 10 <= len(sample)
    beyond_ascii = sum(1 for c in text if c > "\x7f" and c != "\ufffd")
    return bad * 10 <= beyond_ascii


def _has_no_controls(text: str) -> bool:
    return not any(_is_control(c) for c in text)


def _is_control(c: str) -> bool:
    return c < " " and c not in _ALLOWED_CONTROLS


def _familiar(text: str) -> int:
    """How much of it looks like Japanese that people write, less what mojibake is made of."""
    score = 0
    for c in text:
        if "\u3040" <= c <= "\u30ff":
            score += 3
        elif "\u4e00" <= c <= "\u9fff" or "\u3000" <= c <= "\u303f" or "\uff01" <= c <= "\uff5e":
            score += 2
        elif c > "\x7f":
            score -= 2
    return score


def _is_plausible(text: str) -> bool:
    """Text for UTF-16 without a mark: nearly all of it ASCII or Japanese, and with kana or mostly ASCII (bytes of other
    kinds, read in pairs, look like rare ideographs)."""
    if len(text) < 4 or not _has_no_controls(text):
        return False
    ascii_ = sum(1 for c in text if " " <= c <= "~" or c in "\t\r\n")
    kana = sum(1 for c in text if "\u3000" <= c <= "\u30ff")
    ideographs = sum(1 for c in text if "\u4e00" <= c <= "\u9fff" or c >= "\uff00")
    return ascii_ + kana + ideographs >= len(text) * 0.95 and (kana * 10 >= len(text) or ascii_ * 2 >= len(text))
