"""What people and outside programs do at random moments, each with everything that may go wrong with it."""

from __future__ import annotations

from actors.protocol.task_log import tasks_of
from orchestrator.forks import NOT_RUN, ForkOrder, fork_of
from session_store.entries import Extension, Question, Rewound, RunEnd, UserInput
from session_store.errors import Refused
from session_store.items import ToolResult
from session_store.messages import Message
from session_store.requests import Annotate, Deliver, Expect
from session_store.restore import History, restore
from tests.simulation import prompts
from tests.simulation.directory import Directory
from tests.simulation.world import TENANT, LawBroken, World, prompt

ACTS = {
    "root": 6,
    "prompt": 24,
    "notify": 14,
    "pause": 10,
    "resume": 12,
    "cancel": 14,
    "stop": 6,
    "answer": 14,
    "again": 8,
    "annotate": 6,
    "rewind": 20,
    "fork": 5,
    "compact": 8,
}
FAULTS = {"crash": 60, "replace": 30, "directory": 8, "crash all": 4}


def not_run(history: History, index: int) -> ToolResult:
    message = history.open_message
    assert message is not None
    call = message.calls[index]
    return ToolResult(message.seq, index, call.call_id, call.name, "not_run", NOT_RUN)


class People:
    def __init__(self, world: World, directory: Directory) -> None:
        self.world = world
        self.directory = directory
        self.acts_left = world.rng.randint(3, 25)
        self.faults_left = world.rng.choice((0, 3, 12))
        self._delivered: list[Deliver] = []

    def new_root(self) -> None:
        session = self.world.fresh_session()
        self.world.say(f"person: new root {session[-4:]}")
        try:
            self.world.create(session, self.world.token("root"), "Do it.", self.world.token("prompt"))
        except Refused:
            return  # no place
        self.world.hint((session,))

    def act(self) -> None:
        """One random deed."""
        self.acts_left -= 1
        world, rng = self.world, self.world.rng
        session = rng.choice(world.sessions)
        kind = world.pick("act", ACTS)
        world.say(f"person: {kind} {world.references[session].history.config.get('name')}")
        match kind:
            case "root":
                self.new_root()
            case "prompt":
                busy = rng.choice(("queue", "queue", "steer", "interrupt"))
                expect = rng.choice((None, None, Expect("not_busy")))
                message = prompt(world.token("prompt"), "user", "And this.", when_busy=busy)
                if rng.random() < 0.3:
                    message = prompts.referring(message)
                self._deliver(Deliver(session, message, expect, world.pod_limits))
            case "notify":
                wake = rng.random() < 0.7
                self._deliver(
                    Deliver(session, Message(world.token("note"), "notify", "user", {"message": "News."}, wake))
                )
            case "answer":
                self.answer(rng.choice(world.sessions))
            case "again":
                if self._delivered:
                    self._deliver(rng.choice(self._delivered))
            case "annotate":
                guard = len(world.references[session].entries)
                key = world.token("key")
                world.execute(Annotate(session, Extension("sim", {"key": key}), key, guard))
                world.note_annotation(session)
            case "rewind":
                at_rest = [r.id for r in world.rows() if r.status not in ("running", "ended")]
                self.rewind(rng.choice(at_rest) if at_rest and rng.random() < 0.8 else session)
            case "fork":
                self.fork(session)
            case "compact":
                self._deliver(Deliver(session, Message(world.token("compact"), "compact", "user")))
            case _:
                self.control(session, kind)

    def rewind(self, session: str) -> None:
        """Mostly to a prompt of the present history at the present head; then the other client's, which comes late."""
        rng, reference = self.world.rng, self.world.references[session]
        prompts = [e.seq for e in reference.entries if isinstance(e, UserInput)]
        fit = [seq for seq in prompts if reference.fold.in_history(seq)]
        to = rng.choice(fit) if fit and rng.random() < 0.9 else rng.randint(0, len(reference.entries) + 1)
        head = len(reference.entries) - (rng.random() < 0.1)
        for _ in range(rng.choice((1, 1, 2))):
            order = Message(self.world.token("rewind"), "rewind", "user", {"to": to, "expected_head": head})
            self._deliver(Deliver(session, order))

    def fork(self, session: str) -> None:
        """Of any turn of any session: with the history of that point, and the source stays as it is."""
        world, reference = self.world, self.world.references[session]
        before = (world.row(session), len(reference.entries))
        seq = world.rng.randint(1, len(reference.entries))
        made, name = world.fresh_session(), world.token("fork")
        request = fork_of(reference.entries, seq, ForkOrder(session, made, world.token("fork"), TENANT, name))
        world.execute(request)
        if (world.row(session), len(reference.entries)) != before:
            raise LawBroken(f"the fork of {session[-4:]} has changed it")
        origin = request.start.origin.seq if request.start.origin is not None else 0
        rests = [e.seq for e in reference.entries[:seq] if isinstance(e, RunEnd | Rewound)]
        if not (rests or [1])[-1] <= origin <= seq:
            raise LawBroken(f"{name} begins at {origin}, not at the last rest before {seq} ({rests[-1:]})")
        there = restore(reference.entries[:origin])
        if (asked := there.status.question) is not None and asked.kind == "permission":
            for index in there.history.open_calls:  # nobody decides in the fork
                there.history.open_results[index] = not_run(there.history, index)
        there.history.close()
        begun, wanted = world.references[made], there.history.items
        if there.status.run_open or begun.history.items[: len(wanted)] != wanted:
            raise LawBroken(f"the history of {name} is not that of its source at {seq}")
        if begun.facts.planning.now.tasks != tasks_of(reference.entries[:origin]):
            raise LawBroken(f"the task list of {name} is not that of its source at {origin}")

    def control(self, session: str, kind: str) -> None:
        rng = self.world.rng
        body: dict[str, object] = {"clear_queue": rng.random() < 0.3} if kind == "cancel" else {}
        expect = rng.choice((Expect("run"), Expect("run"), None))
        message = Message(self.world.token(kind), kind, "user", body)  # type: ignore[arg-type]
        self._deliver(Deliver(session, message, expect))

    def answer(self, session: str, *, late: bool = True) -> None:
        """Answer a question of this Pod: the open one, or (`late`) any that it ever asked; a parent tries at times."""
        rng = self.world.rng
        asked = [e for e in self.world.references[session].entries if isinstance(e, Question)]
        if not asked:
            return
        question = rng.choice(asked) if late and rng.random() < 0.3 else asked[-1]
        body = {"question_id": question.question_id, "choice": rng.choice(question.choices).label}
        if rng.random() < 0.3:
            body["text"] = "Because."
        self._deliver(Deliver(session, Message(self.world.token("answer"), "answer", "user", body)))

    def fault(self) -> None:
        """Something dies, or is believed dead, or is parked."""
        self.faults_left -= 1
        alive = [p for p in self.directory.processes if p.alive]
        kind = self.world.pick("fault", FAULTS)
        self.world.say(f"fault: {kind}")
        if kind == "directory":
            self.directory.restart()
        elif kind == "crash all":
            for pod in alive:
                self.directory.crash(pod)
            self.directory.restart()
        elif alive:
            pod = self.world.rng.choice(alive)
            self.directory.crash(pod) if kind == "crash" else self.directory.replace(pod)

    def park_some(self) -> None:
        alive = [p for p in self.directory.processes if p.alive]
        if alive:
            self.directory.park(self.world.rng.choice(alive))

    def resume_paused(self) -> bool:
        """At the end: nobody stays paused. Whether there was one."""
        paused = [r.id for r in self.world.rows() if r.status == "paused"]
        for session in paused:
            self._deliver(Deliver(session, Message(self.world.token("resume"), "resume", "user"), Expect("run")))
        return bool(paused)

    def answer_open(self) -> bool:
        """At the end: nobody waits for an answer. Whether there was one."""
        waiting = [r.id for r in self.world.rows() if r.status == "waiting_on_user"]
        for session in waiting:
            self.answer(session, late=False)
        return bool(waiting)

    def _deliver(self, request: Deliver) -> None:
        if self.world.try_execute(request) is not None:
            self._delivered.append(request)
            self.world.hint((request.session,))
