"""Many agent loops by hand in one process, over one httpx client; they store nothing.

python -m benchmarks.bare_sessions URL COUNT       prints the seconds they took together
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import httpx

from benchmarks.bare_loops import TOOLS, history


async def loop(client: httpx.AsyncClient, url: str) -> None:
    messages = history(0)
    while True:
        body = {"model": "m", "messages": messages, "tools": TOOLS, "stream": True}
        text, calls = "", {}
        async with client.stream("POST", f"{url}/chat/completions", json=body) as reply:
            async for line in reply.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    for choice in json.loads(line[6:])["choices"]:
                        text += choice["delta"].get("content") or ""
                        for call in choice["delta"].get("tool_calls") or ():
                            calls[call["index"]] = call
        if not calls:
            return
        plain = [{"id": c["id"], "type": "function", "function": c["function"]} for c in calls.values()]
        messages.append({"role": "assistant", "content": text, "tool_calls": plain})
        answers: list[dict[str, Any]] = [
            {"role": "tool", "tool_call_id": c["id"], "content": "a small note\n"} for c in plain
        ]
        messages.extend(answers)


async def together(url: str, count: int) -> float:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=60, limits=limits) as client:
        started = time.perf_counter()
        await asyncio.gather(*(loop(client, url) for _ in range(count)))
        return time.perf_counter() - started


if __name__ == "__main__":
    print(asyncio.run(together(sys.argv[1], int(sys.argv[2]))))
