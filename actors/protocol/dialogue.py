"""A conversation of an internal worker (the extractor, the compactor) with a model: no Pod, no watcher, no log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from actors.protocol.live import Unwatched
from actors.protocol.model import Model, ModelReply, ModelRequest
from actors.protocol.usage import WorkerUsage, worker_usage
from session_store.entries import ToolSpec
from session_store.items import AssistantMessage, HistoryItem, Segment, ToolResult, ToolResultGroup, UserMessage


@dataclass(slots=True)
class Dialogue:
    """`worker` is the label of its tokens, also the name that a scripted model knows it by; `name` is unique for this
    conversation and makes the request ids."""

    worker: str
    session: str
    name: str
    system_prompt: str
    tool: ToolSpec | None = None
    """What it has to call, if it has to call something."""
    _history: list[HistoryItem] = field(default_factory=list)
    _number: int = 0

    def say(self, text: str) -> None:
        name = f"{self.worker}-{self.name}-{len(self._history)}"
        self._history.append(UserMessage((Segment("text", text),), name, "system"))

    async def ask(self, model: Model, spent: Callable[[WorkerUsage], Awaitable[None]]) -> ModelReply:
        """The model's next reply; `spent` is told what it took. Raises `ModelError`."""
        self._number += 1
        request_id = f"{self.worker}-{self.name}-{self._number}"
        request = ModelRequest(
            request_id=request_id,
            session=f"{self.worker}:{self.session}",  # its grants from the limits are not the Pod's, whose epochs go on
            pod_name=self.worker,
            number=self._number,
            system_prompt=self.system_prompt,
            tools=() if self.tool is None else (self.tool,),
            history=[model.encode(item) for item in self._history],
            run_request=self._number,
            must_call=self.tool is not None,
        )
        reply = await model.reply(request, Unwatched())
        await spent(worker_usage(self.worker, request_id, model.name, reply))
        return reply

    def send_back(self, reply: ModelReply, problem: str) -> None:
        """Show the model its reply and what is wrong with it; every call is answered."""
        if reply.items:
            message = AssistantMessage(self._number, f"{self.worker}-{self.name}-{self._number}", reply.items)
            self._history.append(message)
            if message.calls:
                results = (
                    ToolResult(self._number, index, call.call_id, call.name, "error", problem)
                    for index, call in enumerate(message.calls)
                )
                self._history.append(ToolResultGroup(tuple(results)))
                return
        self.say(problem)
