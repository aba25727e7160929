"""What people have allowed: the fold over permission questions and their decisions. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from session_store.entries import LogEntry, Question, QuestionClosed, Rewound, ToolStarted

ALLOW_ONCE, ALLOW_SESSION, DENY = "allow_once", "allow_session", "deny"


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that a person is asked about. `subject`: what the decision is about (see `Question.subject`)."""

    question_id: str
    call_seq: int
    index: int
    subject: str


@dataclass(frozen=True, slots=True)
class Permit:
    """A call that may run because a person said so; `seq` is that of its `tool_started`."""

    call_seq: int
    index: int
    subject: str
    seq: int


@dataclass(slots=True)
class Permits:
    """`grants` are subjects that need no asking in this session, with the seq of the decision."""

    asked: Asked | None = None
    """The open permission question."""
    permit: Permit | None = None
    """The youngest one. It is used up once its call has a result."""
    grants: dict[str, int] = field(default_factory=dict)
    _decided: Asked | None = None

    def apply(self, entry: LogEntry) -> None:
        """Take one entry, in order of seq."""
        match entry:
            case Question(kind="permission", call=call) if call is not None:
                self.asked = Asked(entry.question_id, call.call_seq, call.index, entry.subject or "")
            case QuestionClosed() if self.asked is not None and entry.question_id == self.asked.question_id:
                self._decided, self.asked = self.asked, None
                if entry.how == "answered" and entry.choice == ALLOW_SESSION:
                    self.grants[self._decided.subject] = entry.seq
            case ToolStarted(call=call):
                about = self._decided
                same = about is not None and (about.call_seq, about.index) == (call.call_seq, call.index)
                self.permit = Permit(call.call_seq, call.index, about.subject if about and same else "", entry.seq)
            case Rewound(to=to):  # what was allowed after that point is not any more
                self.asked = self.permit = self._decided = None
                self.grants = {subject: seq for subject, seq in self.grants.items() if seq < to}
            case _:
                pass

    def permit_for(self, call_seq: int, index: int) -> Permit | None:
        """The permit of this call, if it has one."""
        permit = self.permit
        return permit if permit is not None and (permit.call_seq, permit.index) == (call_seq, index) else None
