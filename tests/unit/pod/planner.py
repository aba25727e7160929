"""A Pod on the bench whose model plans: each letter of a script is one reply, answered with the real tools."""

from __future__ import annotations

from typing import Any

from actors.pod.transitions import Phase
from actors.protocol.config import ReminderRule
from actors.protocol.tasks import Face, TaskList, read_change
from actors.protocol.tools import ToolOutcome
from session_store.entries import LogEntry, SystemItems
from session_store.items import SystemItem, ToolCall
from tests.support.planning import answer
from tests.unit.pod.bench import DONE, Bench, call

DENIED = ToolOutcome("denied", "A person said no.")

CALLS: dict[str, tuple[ToolCall, ...]] = {
    ".": (call("Look"),),
    "c": (call("TaskCreate", subject="work"),),
    "C": (call("Look"), call("TaskCreate", subject="work"), call("TaskCreate", subject="more")),
    "u": (call("TaskUpdate", taskid=1, subject="renamed"),),
    "i": (call("TaskUpdate", taskid=1, status="inprogress"),),
    "k": (call("TaskUpdate", taskid=1, status="completed"),),
    "D": (call("TaskUpdate", taskid=1, status="deleted"),),
    "x": (call("TaskUpdate", taskid=99, status="completed"),),
    "d": (call("TaskUpdate", taskid=1, status="completed"),),
    "l": (call("TaskList"),),
    "g": (call("TaskGet", taskid=1),),
    "w": (call("todo", todos=[{"id": "a", "content": "work", "status": "in_progress"}]),),
    "m": (call("todo", todos=[{"id": "a", "status": "completed"}], merge=True),),
    "r": (call("todo"),),
    "X": (call("todo", todos=[{"id": i, "content": "work", "status": "in_progress"} for i in "ab"]),),
}
"""`d` is denied by a person. Besides: `t` text that ends the run (another prompt follows), `e` a request that fails
for good (another prompt follows), `b` one whose stream breaks with nothing kept, `B` one that breaks with text kept."""


class Planner(Bench):
    """`reminded` holds the numbers of the requests right before which a reminder was committed.

    `checked`: compare memory and log after each step, which takes time.
    """

    def __init__(
        self, face: Face = "tasks", rule: ReminderRule | None = None, *, checked: bool = False, **more: Any
    ) -> None:
        super().__init__(planning=face, reminder=rule, **more)
        self.checked = checked
        self.reminded: list[int] = []
        self.number, self._prompts, self._known = 1, 0, 0
        self._prompt()

    def play(self, script: str, restart_before: int | None = None) -> Planner:
        """These replies, one after another; with a new incarnation before request number `restart_before`."""
        for letter in script:
            if self.number == restart_before:
                self.reopen()
            assert self.phase is Phase.REQUESTING, (letter, self.story[-4:])
            self._note()
            self._reply(letter)
            self.number += letter not in "be"
        return self

    @property
    def tasks(self) -> TaskList:
        return self.machine.state.facts.planning.now.tasks

    @property
    def reminders(self) -> list[SystemItem]:
        return [i for i in system_items(self.entries) if i.kind == "reminder"]

    def _note(self) -> None:
        count = len(self.reminders)
        assert count <= self._known + 1, "two reminders in one gap"
        if count > self._known:
            self.reminded.append(self.number)
        self._known = count

    def _reply(self, letter: str) -> None:
        match letter:
            case "t":
                self.reply("Said.")
                self._prompt()
            case "e":
                self.fail_request()
                self._prompt()
            case "b":
                self.break_reply()
            case "B":
                self.break_reply("Half of it")
            case _:
                self.run(*CALLS[letter], denied=letter == "d")

    def run(self, *calls: ToolCall, denied: bool = False) -> None:
        """A reply with these calls, answered in call order over the list as it then is."""
        self.reply(*calls, stop="tool_calls")
        tasks = self.tasks
        for index, made in enumerate(calls):
            outcome = DENIED if denied else DONE if made.name == "Look" else answer(tasks, made, index)
            change = read_change((outcome.data or {}).get("tasks"))
            tasks = tasks if change is None else tasks.after(change)
            self.finish(index, outcome=outcome)

    def _prompt(self) -> None:
        self._prompts += 1
        self.say(f"prompt {self._prompts}")


def system_items(entries: tuple[LogEntry, ...]) -> list[SystemItem]:
    return [i for e in entries if isinstance(e, SystemItems) for i in e.items]
