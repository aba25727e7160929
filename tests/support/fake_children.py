"""The `Children` port over plain values: effects are keyed by the call, as in the real one."""

from __future__ import annotations

from dataclasses import replace

from actors.protocol.ids import child_id
from actors.protocol.tools import CallKey, ChildrenError, ChildView, SpawnOrder


class FakeChildren:
    def __init__(self) -> None:
        self.views: dict[str, ChildView] = {}
        self.orders: dict[str, SpawnOrder] = {}
        self.sent: dict[str, tuple[str, str]] = {}
        self.output: dict[str, list[str]] = {}
        self.refusal: str | None = None

    def add(self, name: str, **facts: object) -> str:
        """A child that is there already; returns its id."""
        pod_id = child_id("01900000-0000-7000-8000-000000000001", 900, len(self.views))
        self.views[pod_id] = ChildView(pod_id, name, **{"status": "running", "concluded": False, **facts})  # type: ignore[arg-type]
        return pod_id

    def conclude(self, pod_id: str, text: str = "done", outcome: str = "finished") -> None:
        self.views[pod_id] = replace(self.views[pod_id], status="idle", concluded=True, outcome=outcome, text=text)

    async def spawn(self, order: SpawnOrder) -> ChildView:
        self._refuse()
        pod_id = child_id(order.key.session, order.key.call_seq, order.key.index)
        if pod_id not in self.views:
            self.orders[pod_id] = order
            self.views[pod_id] = ChildView(pod_id, order.name or f"pod-{len(self.views) + 1}", "running", False)
        return self.views[pod_id]

    async def send(self, key: CallKey, pod: str, message: str) -> ChildView:
        self._refuse()
        pod_id = await self.resolve(pod)
        self.sent.setdefault(str(key), (pod_id, message))
        return self.views[pod_id]

    async def read_output(self, key: CallKey, pod: str, after: int | None) -> tuple[str, int]:
        self._refuse()
        texts = self.output.get(await self.resolve(pod), [])
        return "".join(texts[after or 0 :]), len(texts)

    async def stop(self, key: CallKey, pod: str) -> ChildView:
        self._refuse()
        pod_id = await self.resolve(pod)
        self.views[pod_id] = replace(self.views[pod_id], status="ended", concluded=True, outcome="stopped")
        return self.views[pod_id]

    async def resolve(self, pod: str) -> str:
        self._refuse()
        if pod in self.views:
            return pod
        for view in self.views.values():
            if view.name == pod:
                return view.pod_id
        raise ChildrenError(f"You have no child named {pod!r}.")

    async def list(self, session: str) -> tuple[ChildView, ...]:
        self._refuse()
        return tuple(self.views.values())

    def _refuse(self) -> None:
        if self.refusal is not None:
            raise ChildrenError(self.refusal)
