"""Cutting text, telling encodings."""

from hypothesis import given
from hypothesis import strategies as st

from actors.tools.environment import clean_environment, redacted
from actors.tools.output import Tail
from actors.tools.text import cut_end, cut_middle, decoder, detect, one_line, sizes

ANY = st.text(alphabet=st.sampled_from("aé\nあ𠮷👨‍👩‍👧か\u3099"), max_size=80)


@given(ANY, st.integers(0, 90))
def test_cut_middle_keeps_head_and_tail_and_counts_the_rest(text: str, limit: int) -> None:
    head, tail, dropped = cut_middle(text, limit)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) + dropped == len(text)
    assert len(head) + len(tail) == min(limit, len(text))
    assert (head + tail).encode("utf-8").decode("utf-8") == head + tail


@given(ANY, st.integers(0, 90))
def test_cut_end_counts_what_it_drops(text: str, limit: int) -> None:
    kept, dropped = cut_end(text, limit)
    assert text.startswith(kept)
    assert len(kept) + dropped == len(text)
    assert len(kept) <= limit


@given(st.lists(ANY), st.integers(0, 30))
def test_the_tail_of_pieces_is_the_tail_of_the_whole(pieces: list[str], limit: int) -> None:
    tail = Tail(limit)
    for piece in pieces:
        tail.add(piece)
    whole = "".join(pieces)
    assert tail.text() == whole[max(0, len(whole) - limit) :]


@given(ANY, st.integers(1, 5))
def test_bytes_in_any_pieces_give_the_same_text(text: str, size: int) -> None:
    data = text.encode()
    decode = decoder("utf-8")
    pieces = [decode.decode(data[at : at + size]) for at in range(0, len(data), size)]
    assert "".join(pieces) + decode.decode(b"", True) == text


@given(st.text(alphabet=st.characters(min_codepoint=0x3041, max_codepoint=0x30F6), min_size=1), st.integers(0, 2))
def test_kana_in_utf_8_is_utf_8_wherever_the_sample_ends(text: str, cut: int) -> None:
    data = text.encode()
    assert detect(data[: len(data) - cut]) == "utf-8"


@given(st.binary(max_size=200))
def test_telling_an_encoding_never_fails(data: bytes) -> None:
    encoding = detect(data)
    assert encoding is None or isinstance(decoder(encoding).decode(data, True), str)


def test_sizes_and_lines_for_people() -> None:
    assert [sizes(n) for n in (0, 1, 9_999, 5_000_000)] == [
        "0 bytes",
        "1 byte",
        "9,999 bytes",
        "5,000,000 bytes (5.0 MB)",
    ]
    assert one_line(" a\n b\t" + "c" * 300, 10) == "a b ccccc…"


def test_G06_the_environment_of_tools_holds_no_keys_and_nothing_of_ours() -> None:
    mine = {
        "PATH": "/bin",
        "HOME": "/root",
        "LC_TIME": "ja_JP.UTF-8",
        "OPENAI_API_KEY": "sk-1",
        "GITHUB_TOKEN": "t",
        "AWS_SECRET_ACCESS_KEY": "s",
        "PGPASSWORD": "p",
        "NEW_VENDOR_PASS": "n",
        "RAY_ADDRESS": "r",
        "POLYPOD_HOME": "h",
        "POLYPOD__GATEWAY__TOKEN": "t",
        "PYTHONPATH": "x",
        "LD_PRELOAD": "x",
    }
    clean = clean_environment(mine)
    assert clean == {
        **{name: mine[name] for name in ("PATH", "HOME", "LC_TIME")},
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
    }
    assert clean_environment({"LANG": "ja_JP.UTF-8"})["LANG"] == "ja_JP.UTF-8"


def test_G06_values_of_secrets_are_taken_out_of_errors() -> None:
    mine = {"OPENAI_API_KEY": "sk-secret", "DB_PASSWORD": "hunter22", "PATH": "/usr/bin", "X_TOKEN": "abc"}
    assert redacted("sk-secret at /usr/bin: hunter22 abc", mine) == "[redacted] at /usr/bin: [redacted] abc"
