"""Log entries told for people: one small function per kind, from the entry's JSON to lines. Pure.

An entry of a kind that is not known here is shown as what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from orchestrator.cli.cells import clean, count, duration, one_line
from orchestrator.cli.paint import Style
from orchestrator.cli.questions import choice_words
from orchestrator.gateway.sse import json_text
from orchestrator.sigils import REFERENCES, prompt_text

Entry = Mapping[str, Any]

WIDE_TEXT = 2000
_PLAIN = REFERENCES | {"text"}
_ARGUMENTS = ("command", "path", "pattern", "task", "pod", "pods", "question", "subject", "message", "taskid", "todos")
"""The argument that says most about a call, in this order."""

OUTCOME_STYLES: Mapping[str, Style] = {
    "finished": "green",
    "waiting_on_children": "cyan",
    "waiting_on_user": "yellow",
    "paused": "yellow",
    "limit_reached": "red",
    "errored": "red",
    "cancelled": "red",
    "stopped": "red",
    "withdrawn": "red",
}
CHILD_MARK = "child"
RESULT_STYLES: Mapping[str, Style] = {"ok": "dim", "error": "red", "denied": "red", "interrupted": "yellow"}


@dataclass(frozen=True, slots=True)
class Told:
    """A piece of story: `mark` says what it is, `text` may have several lines."""

    mark: str
    text: str
    style: Style = "plain"


def tell(entry: Entry) -> list[Told]:
    """The entry in words, nothing cut that a person would miss."""
    teller = _TELLERS.get(str(entry.get("type")))
    if teller is None:
        return [
            Told("?", f"{entry.get('type')} (a kind this version does not know): {json_text(_fields(entry))}", "dim")
        ]
    try:
        return teller(entry)
    except (KeyError, TypeError, ValueError, AttributeError):
        return [Told("?", f"{entry.get('type')}: {json_text(_fields(entry))}", "dim")]


def raw_line(entry: Entry) -> str:
    """`seq time type {rest}` on one line, nothing cut."""
    stamp = str(entry.get("ts", ""))
    return f"{entry.get('seq'):>6} {stamp} {entry.get('type')} {json_text(_fields(entry))}"


def call_words(call: Entry, width: int) -> str:
    """A tool call in one line: its name and the argument that says most."""
    name = clean(str(call.get("name")))
    arguments = call.get("arguments")
    if not isinstance(arguments, dict):
        return one_line(f"{name} {call.get('raw') or ''}", width)
    if name == "SpawnPod" and arguments.get("name"):
        return one_line(f"{name} {arguments['name']}: {arguments.get('task')}", width)
    telling = [k for k in _ARGUMENTS if k in arguments] or list(arguments)
    if not telling:
        return one_line(name, width)
    value = arguments[telling[0]]
    return one_line(f"{name} {value if isinstance(value, str) else json_text(value)}", width)


def text_of(entry: Entry) -> str:
    """The text the model wrote in an `assistant_items` entry."""
    return "".join(str(i.get("text", "")) for i in entry.get("items") or () if i.get("type") == "text")


def calls_of(entry: Entry) -> list[Entry]:
    """The tool calls of an `assistant_items` entry, in call order."""
    return [i for i in entry.get("items") or () if i.get("type") == "tool_call"]


def segments_text(segments: Any) -> str:
    """A prompt's segments as text, pastes and what is not known by what they are."""
    return prompt_text(s if s.get("type") in _PLAIN else _named(s) for s in segments or ())


def _named(segment: Entry) -> Entry:
    data = segment.get("data") or {}
    what = segment.get("text") or " ".join(str(v) for v in data.values() if isinstance(v, str))
    return {"type": "text", "text": f"[{segment.get('type')}: {what}]"}


def event_words(event: Entry) -> str:
    """A child's PodEvent in words."""
    name, kind = event.get("pod_name") or event.get("pod_id"), event.get("kind")
    match kind:
        case "turn_ended":
            words = f"{name}: {event.get('outcome')}"
        case "waiting_on_user":
            question = event.get("question") or {}
            words = f"{name} asks: {question.get('question', '')}"
        case "errored":
            words = f"{name}: errored: {problem_words(event.get('error'))}"
        case "shut_down":
            words = f"{name}: shut down"
        case _:
            words = f"{name}: {kind}"
    text = event.get("text")
    return f"{words}\n{text}" if text else words


def problem_words(error: Any) -> str:
    """An error `{type, message}` in words."""
    if not isinstance(error, Mapping):
        return "" if error is None else str(error)
    return f"{error.get('message') or ''} ({error.get('type')})".strip()


def without_command(summary: str) -> str:
    """Shell's summary begins with the command, which stands before it already."""
    return summary.rpartition("` ")[2] if summary.startswith("`") else summary


def _segment_start(entry: Entry) -> list[Told]:
    config = entry.get("config") or {}
    model = config.get("model") or {}
    tools = ", ".join(str(tool.get("name")) for tool in entry.get("tools") or ())
    origin = entry.get("origin")
    if origin and origin.get("session") == entry.get("session"):
        return []  # of a compaction, whose record tells it
    words = [f"segment  model {model.get('name', '?')}", f"workspace {config.get('workspace', '?')}"]
    if tools:
        words.append(f"tools {tools}")
    if entry.get("history"):
        kept = len(entry["history"]) + int(entry.get("history_left_out") or 0)
        words.append(f"{kept} items kept")
    if origin:
        words.append(f"from {origin.get('session')} at {origin.get('seq')}")
    return [Told("=", " · ".join(words), "dim")]


def _invoke(entry: Entry) -> list[Told]:
    return [Told(">", f"run {entry['run_id']} starts ({entry.get('trigger')})", "dim")]


def _user_input(entry: Entry) -> list[Told]:
    sender = entry.get("from", "user")
    answers = " (an answer)" if entry.get("answers") else ""
    return [Told("user" if sender == "user" else f"from {sender}", segments_text(entry["segments"]) + answers, "bold")]


def _assistant_items(entry: Entry) -> list[Told]:
    told = []
    for item in entry.get("items") or ():
        match item.get("type"):
            case "text":
                told.append(Told("", str(item["text"])))
            case "reasoning":
                told.append(Told("thinks", str(item.get("text", "")), "dim"))
            case "tool_call":
                told.append(Told("->", call_words(item, WIDE_TEXT), "blue"))
                if item.get("problem"):
                    told.append(Told("", f"not run: {item['problem']}", "red"))
            case other:
                told.append(Told("?", f"{other}: {json_text(item)}", "dim"))
    return told


def _tool_started(entry: Entry) -> list[Told]:
    return [Told("->", f"allowed, starts: {call_words(entry['call']['call'], WIDE_TEXT)}", "blue")]


def _tool_results(entry: Entry) -> list[Told]:
    told = []
    for result in entry["results"]:
        status = str(result["status"])
        told.append(Told("<-", f"{result['name']} {status}: {result['summary']}", RESULT_STYLES.get(status, "dim")))
        content = result.get("content")
        if content and content != result["summary"]:
            told.append(Told("", indent(str(content), "  "), "dim"))
    return told


def _system_items(entry: Entry) -> list[Told]:
    told = []
    for item in entry["items"]:
        event = (item.get("payload") or {}).get("event")
        if item.get("kind") == "pod_event" and isinstance(event, Mapping):
            told.append(Told(CHILD_MARK, event_words(event), "cyan"))
        else:
            told.append(Told(str(item.get("kind")), str(item.get("body", "")), "cyan"))
    return told


def _question(entry: Entry) -> list[Told]:
    lines = [str(entry["question"])]
    lines += [f"  - {choice_words(choice)}" for choice in entry.get("choices") or ()]
    return [Told("asks", "\n".join(lines), "yellow")]


def _question_closed(entry: Entry) -> list[Told]:
    answer = " ".join(str(entry[k]) for k in ("choice", "text") if entry.get(k))
    return [Told("", f"question {entry['how']} by {entry.get('by')}{': ' + answer if answer else ''}", "yellow")]


def _llm_usage(entry: Entry) -> list[Told]:
    cached = f" ({count(entry['cache_read'])} cached)" if entry.get("cache_read") else ""
    about = "about " if entry.get("estimated") else ""
    words = f"request: {about}{count(entry['input'])} tokens in{cached}, {count(entry['output'])} out"
    return [Told("", f"{words}, {duration(entry['latency'] / 1000)}", "dim")]


def _run_end(entry: Entry) -> list[Told]:
    outcome = str(entry["outcome"])
    words = f"run {entry['run_id']} ends: {outcome}"
    if entry.get("error"):
        words += f": {problem_words(entry['error'])}"
    if entry.get("waits_for"):
        words += f" ({entry.get('mode', 'all')} of {', '.join(entry['waits_for'])})"
    return [Told("<", words, OUTCOME_STYLES.get(outcome, "plain"))]


def _withdrawn(entry: Entry) -> list[Told]:
    return [Told("", f"withdrawn: {segments_text(entry['segments'])}", "red")]


def _config_changed(entry: Entry) -> list[Told]:
    changed = [k for k in ("config", "system_prompt", "tools") if entry.get(k) is not None]
    return [Told("=", f"changed: {', '.join(changed)}", "dim")]


def _rewound(entry: Entry) -> list[Told]:
    return [Told("=", f"rewound to before entry {entry['to']}", "yellow")]


def _extension(entry: Entry) -> list[Told]:
    if entry["domain"] == "compaction":
        return [_compaction(entry["payload"])]
    return [Told("=", f"{entry['domain']} {json_text(entry['payload'])}", "dim")]


def _compaction(record: Entry) -> Told:
    before = count(record["before"])
    if record.get("error"):
        return Told("=", f"not compacted (about {before} tokens): {problem_words(record['error'])}", "red")
    items = f"{record['summarised']} items summarised, {record['retained']} kept"
    return Told("=", f"compacted from about {before} to {count(record['after'])} tokens ({items})", "yellow")


def _segment_end(entry: Entry) -> list[Told]:
    return []  # what begins the next segment says why


def _pod_end(entry: Entry) -> list[Told]:
    return [Told("=", f"the Pod has ended: {entry.get('reason')}", "red")]


_TELLERS: Mapping[str, Callable[[Entry], list[Told]]] = {
    "segment_start": _segment_start,
    "invoke": _invoke,
    "user_input": _user_input,
    "assistant_items": _assistant_items,
    "tool_started": _tool_started,
    "tool_results": _tool_results,
    "system_items": _system_items,
    "question": _question,
    "question_closed": _question_closed,
    "llm_usage": _llm_usage,
    "run_end": _run_end,
    "withdrawn": _withdrawn,
    "config_changed": _config_changed,
    "rewound": _rewound,
    "extension": _extension,
    "segment_end": _segment_end,
    "pod_end": _pod_end,
}


def _fields(entry: Entry) -> dict[str, Any]:
    return {k: v for k, v in entry.items() if k not in ("seq", "ts", "type")}
