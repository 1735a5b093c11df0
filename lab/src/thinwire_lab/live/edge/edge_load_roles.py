"""Edge hosts as processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from thinwire.brokers.broker_url import read_url
from thinwire.client.local_services_opening import open_broker
from thinwire.edge import EdgeHost, EdgeHostDocument
from thinwire.edge.edge_host_host import at_work
from thinwire.edge.latency_report_times import Times


class EdgeHostRole:
    """A host; it tells how its topics did.

    emulated: cores by timer; pinned: the processors it may use, any where empty
    """

    def __init__(
        self, url: str, about: dict[str, Any], emulated: bool, pinned: Sequence[int] = (), path: Sequence[str] = ()
    ) -> None:
        self.url, self.about, self.emulated = url, EdgeHostDocument(**about), emulated
        self.pinned, self.path = pinned, path
        self._stack = AsyncExitStack()
        self._host: EdgeHost | None = None

    async def open(self) -> None:
        if self.pinned and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self.pinned)
        broker, _ = await open_broker(read_url(self.url), {}, self._stack)
        self._host = EdgeHost(broker, self.about, emulated=self.emulated, path=self.path)
        await self._stack.enter_async_context(at_work(self._host))

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """Whatever it is told: the work on every topic that it has, by the wall and by the processor."""
        assert self._host is not None
        return {topic: _worked(work.times) for topic, work in self._host.works.items()}

    async def close(self) -> None:
        await self._stack.aclose()


def _worked(times: Times) -> dict[str, Any]:
    return {
        "messages": times.work.count,
        "wall": times.work.value,
        "cpu": times.work_cpu.value,
        "spread": times.work_cpu.spread,
        "stretch": (times.wall.quantile(0.99) or 0.0) / (times.cpu.quantile(0.99) or 1.0),
    }
