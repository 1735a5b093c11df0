"""The recorder: logs of topics into a recording, as they grow.

A recording goes on where it ended, however it ended: every message is copied once, under its own offset. What the
broker no longer has when it is asked for is a gap, and is named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from thinwire.brokers.protocol_broker import Broker, LogReader, Stored
from thinwire.brokers.recording import RecordingWriter, open_recording
from thinwire.errors import BrokerUnavailable, Conflict, UnknownLog, UnknownTopic
from thinwire.topics.names import REGISTRY, check_topic, log_of, publisher_subjects
from thinwire.topics.recorder_copied import Copied
from thinwire.topics.recorder_documents import put_checkpoints, put_dictionaries, put_documents
from thinwire.topics.recorder_places import Start, beginning, check_same
from thinwire.topics.topic_settings import topic_key
from thinwire.wire import bindings_in

PULSE = 1.0
"""seconds after which what was read is in the files, whatever happens to this process"""
DOCUMENTS = 10.0
"""seconds between two looks at the documents: a schema may come while its topic is recorded"""
AHEAD = 1_024
"""messages read ahead"""


class Recorder:
    """Records some topics: `open`, `copy`, and `put_documents` once more at the end.

    checkpoints: record the checkpoints of the topics as well; a reader begins in the middle at less cost then
    tell: called with a sentence for people
    copied: how far each topic is
    """

    def __init__(
        self,
        broker: Broker,
        out: RecordingWriter,
        topics: Sequence[str],
        *,
        checkpoints: bool = False,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.topics = [check_topic(topic) for topic in dict.fromkeys(topics)]
        self.checkpoints = checkpoints
        self.copied: dict[str, Copied] = {}
        self._broker, self._out, self._tell = broker, out, tell
        self._bound: set[bytes] = set()
        """the dictionaries that messages name and that are not recorded yet"""

    async def open(self, start: Start = "earliest") -> None:
        """Find out where every topic begins, or goes on; record what is known of it."""
        await open_logs(self._broker, self.topics)
        for topic in self.topics:
            self.copied[topic] = await self._place(topic, start)
        await self.put_documents()

    async def copy(self, *, until_caught_up: bool = False) -> None:
        """Copy messages as they come, until cancelled; or everything that is there now."""
        keeping = asyncio.create_task(self._keep())
        tasks = {keeping, *(asyncio.create_task(self._copy(topic, until_caught_up)) for topic in self.topics)}
        try:
            pending = tasks
            while pending != {keeping}:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def put_documents(self) -> None:
        """Record the documents as they are now."""
        for topic in self.topics:
            await put_documents(self._broker, self._out, topic)
            if self.checkpoints:
                await put_checkpoints(self._broker, self._out, topic)
        self._bound -= set(await put_dictionaries(self._broker, self._out, list(self._bound)))
        self._out.flush()

    async def _place(self, topic: str, start: Start) -> Copied:
        log, span = log_of(topic), await self._broker.span(log_of(topic))
        self._out.last(log)  # finishes what a recorder that was killed left open
        with open_recording(self._out.path) as recording:
            recorded = recording.last(log, ">")
        if recorded is None:
            return Copied(topic, await beginning(self._broker, topic, start, span), 0, span.last)
        await check_same(self._broker, topic, span, recorded)
        self._tell(f"{topic}: goes on after offset {recorded.offset:,}")
        return Copied(topic, recorded.offset + 1, recorded.offset, span.last)

    async def _copy(self, topic: str, until_caught_up: bool) -> None:
        copied, log = self.copied[topic], log_of(topic)
        end = copied.end if until_caught_up else None
        if end is not None and copied.behind == 0:
            return
        reader = await self._broker.read(log, first=copied.since, limit=AHEAD)
        try:
            while end is None or copied.last < end:
                stored = await reader.next(PULSE)
                if stored is not None:
                    self._take(copied, stored, reader)
                elif end is not None and (await self._broker.span(log)).first > end:
                    return  # what was awaited has left the log meanwhile
        finally:
            await reader.close()

    def _take(self, copied: Copied, stored: Stored, reader: LogReader) -> None:
        self._out.append(log_of(copied.topic), stored)
        self._bound.update(binding.hash for binding in bindings_in(stored.payload))
        gap = copied.note(stored)
        if gap is not None:
            self._tell(f"{copied.topic}: offsets {gap[0]:,} to {gap[1]:,} are no longer in the log")
        reader.done(stored.offset)

    async def _keep(self) -> None:
        """Now and then, write what was read, see how far the log is, and look for new documents."""
        loop = asyncio.get_running_loop()
        due = loop.time() + DOCUMENTS
        while True:
            await asyncio.sleep(PULSE)
            self._out.flush()
            with suppress(BrokerUnavailable, Conflict):  # the log is read on when the broker is back
                for copied in self.copied.values():
                    copied.end = max(copied.end, (await self._broker.span(log_of(copied.topic))).last)
                if loop.time() >= due:
                    await self.put_documents()
                    due = loop.time() + DOCUMENTS


async def open_logs(broker: Broker, topics: Sequence[str]) -> None:
    """Refuse topics that nobody knows.

    A topic has a log once somebody published or subscribed; one that is only registered gets it now.
    """
    for topic in topics:
        try:
            await broker.span(log_of(check_topic(topic)))
        except UnknownLog:
            if await (await broker.bucket(REGISTRY)).get(topic_key(topic)) is None:
                raise UnknownTopic("and nothing was ever published to it", topic=topic) from None
            await broker.open_log(log_of(topic), [publisher_subjects(topic)])
