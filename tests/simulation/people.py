"""What people and outside programs do at random moments, each with everything that may go wrong with it."""

from __future__ import annotations

from session_store.entries import Extension
from session_store.errors import Refused
from session_store.messages import Message
from session_store.requests import Annotate, Deliver, Expect
from tests.simulation import prompts
from tests.simulation.directory import Directory
from tests.simulation.world import World, prompt

ACTS = {
    "root": 6,
    "prompt": 24,
    "notify": 14,
    "pause": 10,
    "resume": 12,
    "cancel": 14,
    "stop": 6,
    "again": 8,
    "annotate": 6,
}
FAULTS = {"crash": 60, "replace": 30, "directory": 8, "crash all": 4}


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
            case "again":
                if self._delivered:
                    self._deliver(rng.choice(self._delivered))
            case "annotate":
                guard = len(world.references[session].entries)
                key = world.token("key")
                world.execute(Annotate(session, Extension("sim", {"key": key}), key, guard))
                world.note_annotation(session)
            case _:
                self.control(session, kind)

    def control(self, session: str, kind: str) -> None:
        rng = self.world.rng
        body: dict[str, object] = {"clear_queue": rng.random() < 0.3} if kind == "cancel" else {}
        expect = rng.choice((Expect("run"), Expect("run"), None))
        message = Message(self.world.token(kind), kind, "user", body)  # type: ignore[arg-type]
        self._deliver(Deliver(session, message, expect))

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

    def _deliver(self, request: Deliver) -> None:
        if self.world.try_execute(request) is not None:
            self._delivered.append(request)
            self.world.hint((request.session,))
