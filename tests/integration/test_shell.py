"""Shell with real commands."""

import asyncio
import os
import time
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from actors.protocol.tools import FILE_TOOLS
from actors.tools.executor import run_calls
from actors.tools.limits import ToolLimits
from actors.tools.registry import build_toolbox
from session_store.items import ToolCall
from tests.support.tool_calls import Bench, told


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    await bench.toolbox.close()
    assert bench.guard.live == 0


async def test_output_in_order_exit_code_and_folder(bench: Bench) -> None:
    outcome = await bench.call("Shell", command="pwd; echo err >&2; echo 日本語 🎌")
    assert outcome.status == "ok"
    assert told(outcome) == f"{bench.workspace}\nerr\n日本語 🎌\n"
    assert outcome.data == {"exit_code": 0}
    assert outcome.summary.startswith("`pwd; echo err >&2; echo 日本語 🎌` exited with code 0 after 0.")
    assert "".join(bench.live) == told(outcome)


@pytest.mark.parametrize(
    ("command", "says", "code"),
    [
        ("echo a; exit 3", "a\n[exited with code 3]", 3),
        ("false", "[no output]\n[exited with code 1]", 1),
        ("no-such-program", "not found", 127),
        ("kill -9 $$", "[was ended by signal SIGKILL]", -9),
        ("if", "syntax error", 2),
    ],
)
async def test_a_command_that_fails_is_an_error_with_its_output(
    bench: Bench, command: str, says: str, code: int
) -> None:
    outcome = await bench.call("Shell", command=command)
    assert outcome.status == "error"
    assert says in told(outcome)
    assert outcome.data == {"exit_code": code}


async def test_nothing_can_be_typed_in(bench: Bench) -> None:
    assert told(await bench.call("Shell", command="cat; read x; echo $?")) == "1\n"


async def test_a_timeout_ends_the_command_and_keeps_its_output(bench: Bench) -> None:
    started = time.monotonic()
    outcome = await bench.call("Shell", command="echo before; sleep 300; echo after", timeout=0.3)
    assert time.monotonic() - started < 3.0
    assert outcome.status == "error"
    assert told(outcome) == "before\n[ran into its timeout of 0.3 s and was ended with all it had started]"
    assert "at most 3600 seconds" in told(await bench.call("Shell", command="true", timeout=4_000))


async def test_a_background_child_that_holds_the_output_does_not_hang_the_call(bench: Bench) -> None:
    started = time.monotonic()
    outcome = await bench.call("Shell", command="sleep 300 & setsid sleep 300 & echo done")
    assert told(outcome) == "done\n"
    assert time.monotonic() - started < 3.0


async def test_output_is_live_before_the_command_ends(bench: Bench) -> None:
    running = asyncio.ensure_future(bench.call("Shell", command="printf 'あ'; sleep 1; printf 'い'"))
    for _ in range(100):
        await asyncio.sleep(0 if bench.live else 0.01)
    assert bench.live == ["あ"]
    assert not running.done()
    await running
    assert bench.live == ["あ", "い"]


async def test_characters_cut_by_the_pipe_come_out_whole_and_bad_bytes_are_replaced(bench: Bench) -> None:
    command = r"printf '\xe3\x81'; sleep 0.1; printf '\x82\xff|'"
    assert told(await bench.call("Shell", command=command)) == "あ\ufffd|"


async def test_M07_five_megabytes_are_cut_at_a_character_and_kept_in_a_file(bench: Bench) -> None:
    line = "あ𠮷いろはにほへと\n"
    count = 5_000_000 // len(line.encode())
    outcome = await bench.call("Shell", command=f"yes {line.strip()} | head -n {count}; echo end")
    assert outcome.status == "ok"
    text = told(outcome)
    assert 30_000 < len(text) < 30_400
    assert text.startswith(line)
    assert text.endswith("end\n")
    assert "�" not in text
    whole = line * count + "end\n"
    assert f"{len(whole) - 30_000:,} characters are left out here; the whole is {len(whole.encode()):,} bytes" in text
    (kept,) = (bench.folder / "spill").iterdir()
    assert kept.read_text() == whole
    assert kept.stat().st_mode & 0o077 == 0
    read = await bench.call("Read", path=str(kept), offset=count, limit=5)
    assert told(read) == f"{count}\t{line}{count + 1}\tend"
    assert len("".join(bench.live)) < 200_100


async def test_M07_output_without_end_takes_neither_memory_nor_disk_without_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path, limits=ToolLimits(spill=2_000_000, live=1_000))
    tracemalloc.start()
    outcome = await bench.call("Shell", command="head -c 60000000 /dev/zero | tr '\\0' x")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000
    assert "60,000,000 bytes (60.0 MB). It could not be kept whole: only its first 2,000,000 bytes" in told(outcome)
    assert [p.stat().st_size for p in (tmp_path / "spill").iterdir()] == [2_000_000]


async def test_a_spill_folder_that_cannot_be_written_is_told_and_loses_no_result(bench: Bench) -> None:
    (bench.folder / "blocked").write_text("a file")
    bench.context = replace(bench.context, spill=bench.folder / "blocked/spill")
    outcome = await bench.call("Shell", command="seq 100000")
    assert outcome.status == "ok"
    assert told(outcome).startswith("1\n2\n")
    assert told(outcome).endswith("\n100000\n")
    assert "It could not be kept whole: Not a directory" in told(outcome)


@pytest.mark.parametrize(
    ("command", "says"),
    [("echo \0", "NUL"), ("echo \ud83d", "half a character"), ("x" * 100_001, "Write a script"), ("", "`command`")],
)
async def test_commands_that_cannot_be(bench: Bench, command: str, says: str) -> None:
    outcome = await bench.call("Shell", command=command)
    assert outcome.status == "error"
    assert says in told(outcome)


async def test_without_its_workspace_the_shell_says_so(bench: Bench) -> None:
    bench.workspace.rmdir()
    assert "is not there" in told(await bench.call("Shell", command="true"))


async def test_a_closed_toolbox_runs_nothing_more(bench: Bench) -> None:
    await bench.toolbox.close()
    assert "letting go of its tools" in told(await bench.call("Shell", command="touch made"))
    assert "letting go of its tools" in told(await bench.call("Grep", pattern="x"))
    assert os.listdir(bench.workspace) == []


async def test_L08_a_long_tool_keeps_the_loop_free_and_its_siblings_going(bench: Bench) -> None:
    toolbox = build_toolbox(FILE_TOOLS, None, bench.guard)
    calls = [
        ToolCall("a", "Shell", {"command": "sleep 1; echo long"}),
        ToolCall("b", "Shell", {"command": "echo short"}),
    ]
    order: list[tuple[int, str | None]] = []
    gaps = [0.0]

    async def heartbeat() -> None:
        while True:
            started = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - started)

    beating = asyncio.ensure_future(heartbeat())
    await run_calls(list(enumerate(calls)), toolbox, lambda i: bench.context, lambda i, o: order.append((i, o.content)))
    beating.cancel()
    assert order == [(1, "short\n"), (0, "long\n")]
    assert len(gaps) > 50
    assert max(gaps) < 0.3
