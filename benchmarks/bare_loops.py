"""What people write by hand: an agent loop over httpx that fsyncs JSON lines, and one over the OpenAI SDK.

python -m benchmarks.bare_loops httpx|sdk URL WORKSPACE STEPS LOG

Each goes on from a history of STEPS finished steps until the model has no more calls.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "Read",
            "description": "Read a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    }
]


def history(steps: int) -> list[dict[str, Any]]:
    """A history of `steps` finished steps, as the loops below leave it."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a careful agent."},
        {"role": "user", "content": "Read the note, again and again."},
    ]
    for step in range(steps):
        function = {"name": "Read", "arguments": '{"path": "note.txt"}'}
        call = {"id": f"call_{step}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "Reading on.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{step}", "content": "a small note\n"})
    return messages


def httpx_loop(url: str, workspace: Path, messages: list[dict[str, Any]], log: Path | None) -> None:
    """Re-encodes the whole history for each request; with `log`, appends each step's messages and fsyncs."""
    import httpx  # lazy: a contender of its own, not needed by the others

    with httpx.Client(timeout=60) as client, (log or Path(os.devnull)).open("a") as out:
        while True:
            body = {"model": "m", "messages": messages, "tools": TOOLS, "stream": True}
            text, calls = "", {}
            with client.stream("POST", f"{url}/chat/completions", json=body) as reply:
                for line in reply.iter_lines():
                    if not line.startswith("data: ") or line == "data: [DONE]":
                        continue
                    for choice in json.loads(line[6:])["choices"]:
                        text += choice["delta"].get("content") or ""
                        for call in choice["delta"].get("tool_calls") or ():
                            calls[call["index"]] = call
            if not calls:
                return
            new = _run(text, list(calls.values()), workspace)
            messages.extend(new)
            if log is not None:
                out.writelines(json.dumps(m) + "\n" for m in new)
                out.flush()
                os.fsync(out.fileno())


def sdk_loop(url: str, workspace: Path, messages: list[dict[str, Any]]) -> None:
    """The OpenAI SDK as its readme shows it; stores nothing."""
    openai: Any = importlib.import_module("openai")  # only here where `make bench` has put it
    client = openai.OpenAI(base_url=url, api_key="none")
    while True:
        text, calls = "", {}
        stream: Any = client.chat.completions.create(
            model="m",
            messages=messages,
            tools=TOOLS,
            stream=True,
        )
        for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for call in choice.delta.tool_calls or ():
                    calls[call.index] = call.model_dump(exclude_none=True)
        if not calls:
            return
        messages.extend(_run(text, list(calls.values()), workspace))


def _run(text: str, calls: list[dict[str, Any]], workspace: Path) -> list[dict[str, Any]]:
    plain = [{"id": c["id"], "type": "function", "function": c["function"]} for c in calls]
    new: list[dict[str, Any]] = [{"role": "assistant", "content": text, "tool_calls": plain}]
    for call in plain:
        path = json.loads(call["function"]["arguments"])["path"]
        new.append({"role": "tool", "tool_call_id": call["id"], "content": (workspace / path).read_text()})
    return new


def main() -> None:
    which, url, workspace, steps, log = sys.argv[1:]
    messages = history(int(steps))
    if which == "httpx":
        httpx_loop(url, Path(workspace), messages, Path(log))
    else:
        sdk_loop(url, Path(workspace), messages)


if __name__ == "__main__":
    main()
