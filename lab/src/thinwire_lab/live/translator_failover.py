"""Failure of a translator: how long delivery is interrupted, and whether guarantees hold.

The system is a broker, the registry, two translators, four publishers and three subscribers: one reads the log, one a
channel of a class that predicts, one a channel of a class that holds.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from thinwire.demo.process_group import START_TIMEOUT, WorkerProcess, micros
from thinwire.services.translator.translator_recovery import find_channel_ends, find_first_uncovered
from thinwire.topics.channel_documents import channel_documents
from thinwire.topics.checkpoint_store import CheckpointStore
from thinwire.topics.log_selection import PublisherOffsets
from thinwire.topics.names import CHANNELS, CHECKPOINTS, channel_log_of, log_of
from thinwire.topics.position import decode_envelope
from thinwire_lab.live.background_tasks import background_task, report_progress
from thinwire_lab.live.delivery_audit import AuditedResult, AuditResult
from thinwire_lab.live.live_feed import TOPIC, feed_schema
from thinwire_lab.live.live_system import LiveSystem, NotServed, merge_last
from thinwire_lab.live.service_roles import request_translator_status, wait_for_channels

PUBLISHERS = 4
SUBSCRIBERS: tuple[Mapping[str, Any], ...] = (
    {"tolerance": 0.5, "emit": "changes"},
    {"tolerance": 1.0, "emit": "all"},
    {"tolerance": 4.0, "emit": "changes"},
)
"""the demands: the first one is served by the log, each other one is a class of its own"""
RATE = 2_000.0
"""events per second of all publishers, after the history"""
MAX_BATCH = 256
"""bytes of a message, about twenty frames"""
LINGER = 0.005
LOAD_TIMEOUT = 1_800.0
"""seconds in which the history must be published and delivered"""
CAUGHT_UP = 1.0
"""seconds within which subscribers receive due events when they have caught up"""
TIMEOUT = 120.0
FLOW_BEFORE = (2.0, 5.0)
"""seconds of events before the failure, at least and at most"""
FLOW_AFTER = 5.0
"""seconds of events after the recovery"""

Progress = Callable[[float], None]


@dataclass(frozen=True)
class History:
    """Numbers of events and frames of all publishers before the failure, and of messages in their log."""

    events: int
    frames: int
    messages: int


class FailoverSystem(LiveSystem):
    """The processes of a failover test.

    translator_settings: of both translators, such as `lease`
    """

    def __init__(self, **translator_settings: Any) -> None:
        super().__init__()
        self.translator_settings = translator_settings
        self._start = 0

    async def set_up(self) -> None:
        self.broker = await self.connect()
        await self.start(self.make_worker("registry"))
        await self.register(feed_schema(), mode="hold")
        settings = self.translator_settings
        await self.start(*(self.make_worker("translator", name, name=name, **settings) for name in ("t0", "t1")))
        await self.start(self.make_worker("feed subscriber", demands=SUBSCRIBERS, publishers=PUBLISHERS))
        settings = {"publishers": PUBLISHERS, "linger": LINGER, "max_batch": MAX_BATCH}
        await self.start_publishers("feed publisher", PUBLISHERS, **settings)
        await wait_for_channels(self.broker, TOPIC, len(SUBSCRIBERS))

    async def load(self, frames: int) -> History:
        """Publish a history of about `frames` frames, wait until it is delivered, and start the flow of events."""
        # half of the events of a feed are sent
        length = round(2 * frames / RATE * 1e6)
        self._start = micros() - length
        command = {"rate": RATE, "start": self._start, "until": self._start + length}
        results = await self.run("feed publisher", "load", LOAD_TIMEOUT, **command)
        await self.run("feed publisher", "continue")
        await self._wait_until_caught_up()
        frames, messages = (sum(result[name] for result in results) for name in ("frames", "messages"))
        return History(round(length / 1e6 * RATE), frames, messages)

    async def _wait_until_caught_up(self) -> None:
        late = math.inf
        while late > CAUGHT_UP:
            now = micros()
            await self._run_subscribers("wait_for_instant", LOAD_TIMEOUT, instant=now, max_wait=LOAD_TIMEOUT)
            late = (micros() - now) / 1e6

    async def require_channels(self) -> None:
        """Require that the first subscriber reads the log and all others read their channels."""
        feeds = (await self._run_subscribers("feeds"))["feeds"]
        if feeds != ["log", *["channel"] * (len(SUBSCRIBERS) - 1)]:
            raise NotServed("subscribers read the wrong feeds", topic=TOPIC, feeds=feeds)

    async def find_active_translator(self) -> tuple[WorkerProcess, dict[str, Any]]:
        """Return the translator that serves the topic, and its status."""
        status = await request_translator_status(self.broker, TOPIC)
        return next(worker for worker in self.workers if worker.name == status["name"]), status

    async def watch_takeover(self, epoch: int) -> asyncio.Task[float]:
        """Return a task whose result is when the first message after `epoch` is stored in the channel log."""
        reader = await self.broker.read(channel_log_of(TOPIC))

        async def watch() -> float:
            try:
                while True:
                    stored = await reader.next()
                    if stored is None:
                        continue
                    reader.done(stored.offset)
                    if decode_envelope(stored.payload)[0] > epoch:
                        return stored.time
            finally:
                await reader.close()

        return asyncio.create_task(watch())

    async def count_messages_to_replay(self) -> int:
        """Return the messages of the log from the last checkpoint to the first one that a channel lacks."""
        documents = await channel_documents(await self.broker.bucket(CHANNELS), TOPIC)
        is_open = {name for name, document in documents.items() if document.state == "open"}
        ends = await find_channel_ends(self.broker, TOPIC, is_open)
        log_end = (await self.broker.span(log_of(TOPIC))).last + 1
        offset = find_first_uncovered(ends, documents, await PublisherOffsets.find(self.broker, TOPIC), log_end)
        checkpoints = await CheckpointStore(await self.broker.bucket(CHECKPOINTS)).read_all(TOPIC)
        return offset - 1 - max((one.offset for one in checkpoints if one.offset < offset), default=0)

    async def first_arrivals(self, instant: int) -> list[int | None]:
        """Return when each subscriber received the first event that was due after `instant`."""
        await self._run_subscribers("wait_for_instant", TIMEOUT, instant=instant + 1, max_wait=TIMEOUT)
        arrivals: list[int | None] = (await self._run_subscribers("first_arrivals", instant=instant))["arrivals"]
        return arrivals

    async def finish(self) -> tuple[AuditResult, ...]:
        """Stop the publishers, wait until the subscribers have caught up, and audit each."""
        end = micros() + 200_000
        results = await self.run("feed publisher", "finish", TIMEOUT, end=end)
        last = merge_last(results)
        await self._run_subscribers("wait_for_last", TIMEOUT, last=last, max_wait=TIMEOUT)
        arguments = {"rate": RATE, "start": self._start, "seconds": (end - self._start) / 1e6}
        audit = await self._run_subscribers("audit", TIMEOUT, **arguments)
        return tuple(AuditResult(**result) for result in audit["results"])

    async def _run_subscribers(self, command: str, max_wait: float = 0.0, /, **arguments: Any) -> dict[str, Any]:
        return await self.run_one("feed subscriber", command, max_wait + START_TIMEOUT, **arguments)


@dataclass(frozen=True)
class TranslatorRecovery(AuditedResult):
    """The result of a kill.

    stored: seconds from the kill to the first message of the other translator
    delivered: seconds to the first event that was due after the kill, at the last subscriber of a class; None if there
    was none
    replayed: messages of the log that the other translator read before it continued
    """

    history: History
    stored: float
    delivered: float | None
    replayed: int


@dataclass(frozen=True)
class TranslatorPause(AuditedResult):
    """The result of a pause.

    takeover: seconds until the other translator stored a message
    paused, active: names of the paused translator and of the one that served the topic in the end
    """

    takeover: float
    paused: str
    active: str


async def kill_translator(frames: int, seed: int, progress: Progress, **translator_settings: Any) -> TranslatorRecovery:
    """Kill the translator of a topic whose log has about `frames` frames."""
    async with FailoverSystem(**translator_settings) as system:
        history = await system.load(frames)
        progress(0.6)
        await asyncio.sleep(Random(seed).uniform(*FLOW_BEFORE))
        await system.require_channels()
        worker, status = await system.find_active_translator()
        takeover = await system.watch_takeover(status["epoch"])
        killed = micros()
        await worker.kill()
        replayed = await system.count_messages_to_replay()
        stored = await asyncio.wait_for(takeover, TIMEOUT)
        arrivals = await system.first_arrivals(killed)
        progress(0.8)
        await asyncio.sleep(FLOW_AFTER)
        audits = await system.finish()
    # the first subscriber reads the log, which does not depend on a translator
    waits = [None if at is None else (at - killed) / 1e6 for at in arrivals[1:]]
    delivered = None if None in waits else max(wait for wait in waits if wait is not None)
    return TranslatorRecovery(audits, history, stored - killed / 1e6, delivered, replayed)


async def pause_translator(seconds: float, progress: Progress, **translator_settings: Any) -> TranslatorPause:
    """Stop the process of the translator of a topic for some seconds, then continue it."""
    async with FailoverSystem(**translator_settings) as system:
        await system.load(0)
        await asyncio.sleep(FLOW_BEFORE[0])
        await system.require_channels()
        worker, status = await system.find_active_translator()
        takeover = await system.watch_takeover(status["epoch"])
        paused = micros()
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            async with background_task(report_progress(progress, seconds)):
                stored = await asyncio.wait_for(takeover, TIMEOUT)
                await asyncio.sleep(max(0.0, paused / 1e6 + seconds - micros() / 1e6))
        finally:
            os.kill(worker.pid, signal.SIGCONT)
        await asyncio.sleep(FLOW_AFTER)
        active = await request_translator_status(system.broker, TOPIC)
        audits = await system.finish()
    return TranslatorPause(audits, stored - paused / 1e6, status["name"], active["name"])
