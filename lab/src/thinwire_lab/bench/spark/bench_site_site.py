"""A broker with the stream in its logs, and the same as a recording."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.protocol_broker import Broker
from thinwire.brokers.recording import RecordingWriter
from thinwire.client.bus import connect
from thinwire.topics.names import log_of, publisher_subjects
from thinwire.topics.recorder import Recorder
from thinwire_lab.bench.spark.bench_site_stream import Message, Told, as_json, thin
from thinwire_lab.live.live_feed_feed import TOPIC, feed_schema

BATCHED, SINGLE = "bench.json.batched", "bench.json.single"
"""topics of the JSON logs: messages of as many events as ours have, and of one event each"""
WAVE = 1_000
"""messages after which the broker's acknowledgement is waited for"""


class Site:
    """A broker whose logs are filled one by one; `told`: what our publishers told.

    recording, ready: where our log goes as files, and as rows that are made already
    """

    def __init__(self, url: str, folder: Path, events: int) -> None:
        self.url = url
        self.events = events
        self.recording = folder / "recording"
        self.ready = folder / "ready.arrow"
        self.told = Told()

    def publish(self) -> None:
        """Ours."""
        asyncio.run(self._publish())

    def publish_json(self, topic: str, events: int, together: int) -> None:
        """The first events of the same stream as JSON."""
        asyncio.run(self._fill(topic, as_json(events, topic, together)))

    def record(self) -> None:
        """Our log into files, as `thinwire record` does it."""
        asyncio.run(self._record())

    async def _publish(self) -> None:
        async with connect(self.url) as bus:
            await bus.register(feed_schema())
        await self._fill(TOPIC, thin(self.events, self.told))

    async def _fill(self, topic: str, messages: Iterable[Message]) -> None:
        async with connect(self.url) as bus:
            await bus.broker.open_log(log_of(topic), [publisher_subjects(topic)])
            sent = await _in_waves(bus.broker, log_of(topic), messages)
            stored = (await bus.broker.span(log_of(topic))).messages
        if stored != sent:
            raise RuntimeError(f"the broker has stored {stored:,} of {sent:,} messages")

    async def _record(self) -> None:
        with RecordingWriter(self.recording) as out:
            async with connect(self.url) as bus:
                recorder = Recorder(bus.broker, out, [TOPIC])
                await recorder.open()
                await recorder.copy(until_caught_up=True)


@contextmanager
def site(events: int) -> Iterator[Site]:
    """A broker of one's own, with our log filled."""
    with TemporaryDirectory(prefix="thinwire-bench-") as folder, EmbeddedServer() as server:
        made = Site(server.url, Path(folder), events)
        made.publish()
        yield made


async def _in_waves(broker: Broker, log: str, messages: Iterable[Message]) -> int:
    """Store messages in their order. One connection keeps it, so whoever is acknowledged vouches for those before."""
    sent, last = 0, None
    for message in messages:
        if last is not None:
            await broker.send(*last)
        last, sent = message, sent + 1
        if sent % WAVE == 0:
            await broker.append(log, *last)
            last = None
    if last is not None:
        await broker.append(log, *last)
    return sent
