"""The outbox: a publisher suspended while another took over its name writes nothing more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.brokers.protocol import Broker
from thinwire.client.outbox import Outbox
from thinwire.errors import NameInUse
from thinwire.topics import fenced_writer
from thinwire.topics.names import log_of, publisher_subjects

TOPIC, NAME = "rooms", "p1"
FRAMES = [bytes((0x01, number, 0, number)) for number in range(4)]


class Paused:
    """A broker whose appends are sent only while the gate is open."""

    def __init__(self, inner: Broker) -> None:
        self._inner = inner
        self.gate, self.decided = asyncio.Event(), asyncio.Event()
        self.gate.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def append(self, *args: Any, **options: Any) -> int:
        self.decided.set()
        await self.gate.wait()
        return await self._inner.append(*args, **options)


def outbox(broker: Any, last: int) -> Outbox:
    made = Outbox(broker, TOPIC, NAME, last=last, linger=0, max_batch=65_536, max_pending=1 << 20)
    made.start()
    return made


def test_an_append_suspended_before_sending_is_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fenced_writer, "FENCE_INTERVAL", 60.0)

    async def story() -> None:
        server = LocalServer()
        first, second = Paused(LocalBroker(server)), LocalBroker(server)
        await second.ensure_log(log_of(TOPIC), [publisher_subjects(TOPIC)])
        loop, suspended_seconds = asyncio.get_running_loop(), 0.0
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + suspended_seconds)
        suspended = outbox(first, 0)
        suspended.put(FRAMES[:1])
        await suspended.wait_until_stored()
        first.gate.clear()
        first.decided.clear()
        suspended.put(FRAMES[1:2])
        await first.decided.wait()
        successor = outbox(second, suspended.last)
        successor.put(FRAMES[2:3])
        await successor.wait_until_stored()
        suspended_seconds = 100.0
        first.gate.set()
        with pytest.raises(NameInUse, match=NAME):
            await suspended.wait_until_stored()
        suspended.put(FRAMES[3:])
        assert (await second.span(log_of(TOPIC))).messages == 3
        for box in (suspended, successor):
            await box.close()
        for broker in (first, second):
            await broker.close()

    asyncio.run(story())
