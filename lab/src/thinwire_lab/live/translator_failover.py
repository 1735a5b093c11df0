"""A translator that dies in mid-stream, and one that stands still and wakes up: how long, and what is lost.

A stage for translators that stop: a broker, the registry, two translators, four publishers, three subscribers.

One subscriber reads the log, one has a class that predicts, one a class that holds.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import thinwire as tw
from thinwire.brokers.protocol import Broker
from thinwire.demo.process_group import START, ProcessGroup, WorkerProcess, micros
from thinwire.services.translator.translator_recovery import find_channel_ends, find_first_unsent
from thinwire.topics.channel_documents import channel_documents
from thinwire.topics.checkpoint_store import CheckpointStore
from thinwire.topics.log_selection import PublisherOffsets
from thinwire.topics.names import CHANNELS, CHECKPOINTS, channel_log_of, log_of
from thinwire.topics.position import decode_envelope
from thinwire_lab.live.delivery_audit import Findings
from thinwire_lab.live.live_feed import TOPIC, feed_schema
from thinwire_lab.live.load_chain import IN_MEMORY
from thinwire_lab.live.service_roles import NotServed, translator_of, wait_for_channels

STEADY_PUBLISHERS = 4
SUBSCRIBERS: tuple[Mapping[str, Any], ...] = (
    {"tolerance": 0.5, "emit": "changes"},
    {"tolerance": 1.0, "emit": "all"},
    {"tolerance": 4.0, "emit": "changes"},
)
"""what each asks for: the log itself, and a class of each kind"""
RATE = 2_000.0
"""events a second of all publishers, once the past is loaded"""
SMALL_MESSAGE = 256
"""bytes: about twenty frames"""
LINGER = 0.005
LOADING = 1_800.0
"""seconds in which the past must be published and told"""
CAUGHT_UP = 1.0
"""seconds after which subscribers that see events as they flow have been handed one, at most"""
PATIENCE = 120.0
"""seconds in which subscribers must have caught up"""


@dataclass(frozen=True)
class Loaded:
    """The past of a stage: events and frames of all publishers, messages of their log."""

    events: int
    frames: int
    messages: int


class ClassStage:
    """Everything, as long as the block lasts.

    translators: settings of both translators beside where the broker is, such as `lease`
    """

    def __init__(self, **translators: Any) -> None:
        self.translators = translators
        self._open = AsyncExitStack()
        self._start = 0

    async def __aenter__(self) -> ClassStage:
        from thinwire.brokers.embedded import EmbeddedServer
        from thinwire.brokers.nats.broker import connect

        try:
            folder = self._open.enter_context(TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
            server = await self._open.enter_async_context(EmbeddedServer(directory=Path(folder)))
            self.broker: Broker = await connect(server.url)
            self._open.push_async_callback(self.broker.close)
            await self._start_all(server.url)
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    async def load(self, frames: int) -> Loaded:
        """Publish a past of about so many frames, wait until all have been told, and let events flow."""
        # half of the events of a feed travel
        past = round(2 * frames / RATE * 1e6)
        self._start = micros() - past
        until = self._start + past
        answers = await self._publishers.ask("steady", LOADING, do="load", rate=RATE, start=self._start, until=until)
        await self._publishers.ask("steady", START, do="go")
        await self._caught_up()
        told, messages = (sum(answer[name] for answer in answers) for name in ("frames", "messages"))
        return Loaded(round(past / 1e6 * RATE), told, messages)

    async def _caught_up(self) -> None:
        """Wait until subscribers see events as they flow; when they have come to an instant, that may be long ago."""
        late = math.inf
        while late > CAUGHT_UP:
            now = micros()
            await self._witnesses.ask("witness", LOADING + START, do="flowing", instant=now, patience=LOADING)
            late = (micros() - now) / 1e6

    async def require_channels(self) -> None:
        """Complain unless the first subscriber reads the log and all others their channels."""
        (answer,) = await self._witnesses.ask("witness", START, do="feeds")
        if answer["feeds"] != ["log", *["channel"] * (len(SUBSCRIBERS) - 1)]:
            raise NotServed("subscribers read something else", topic=TOPIC, feeds=answer["feeds"])

    async def holder(self) -> tuple[WorkerProcess, dict[str, Any]]:
        """The translator that serves the topic, and what it says of itself."""
        says = await translator_of(self.broker, TOPIC)
        worker = next(w for w in self._translators.workers if w.settings["name"] == says["name"])
        return worker, says

    async def successor(self, epoch: int) -> asyncio.Task[float]:
        """When the first message of a later epoch is stored in the channels' log, in seconds since the epoch."""
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

    async def to_replay(self) -> int:
        """Messages of the log between the last checkpoint and the first that some channel has not told."""
        documents = await channel_documents(await self.broker.bucket(CHANNELS), TOPIC)
        ends = await find_channel_ends(
            self.broker, TOPIC, {name for name, document in documents.items() if document.state == "open"}
        )
        after_last = (await self.broker.span(log_of(TOPIC))).last + 1
        place = find_first_unsent(ends, documents, await PublisherOffsets.find(self.broker, TOPIC), after_last)
        checkpoints = await CheckpointStore(await self.broker.bucket(CHECKPOINTS)).all(TOPIC)
        return place - 1 - max((one.offset for one in checkpoints if one.offset < place), default=0)

    async def first_after(self, instant: int) -> list[int | None]:
        """When each subscriber had the first event that was due after an instant."""
        await self._witnesses.ask("witness", PATIENCE + START, do="flowing", instant=instant + 1, patience=PATIENCE)
        (answer,) = await self._witnesses.ask("witness", START, do="first_after", instant=instant)
        came: list[int | None] = answer["came"]
        return came

    async def finish(self) -> tuple[Findings, ...]:
        """Come to an end, let subscribers catch up, and judge each."""
        end = micros() + 200_000
        answers = await self._publishers.ask("steady", PATIENCE, do="finish", end=end)
        last = {source: at for answer in answers for source, at in answer["last"].items()}
        reach = {"last": last, "patience": PATIENCE, "settle": 1.0}
        await self._witnesses.ask("witness", PATIENCE + START, do="reach", **reach)
        course = {"rate": RATE, "start": self._start, "seconds": (end - self._start) / 1e6}
        (answer,) = await self._witnesses.ask("witness", PATIENCE, do="judge", **course)
        return tuple(Findings(**found) for found in answer["findings"])

    async def _start_all(self, url: str) -> None:
        """The processes, in the order in which they need each other."""
        await self._open.enter_async_context(ProcessGroup([WorkerProcess("registry", "registry", {"url": url})]))
        async with tw.connect(url) as bus:
            await bus.register(feed_schema(), mode="hold")
        translators = [
            WorkerProcess(f"translator {k}", "telling translator", {"url": url, "name": f"t{k}", **self.translators})
            for k in range(2)
        ]
        self._translators = await self._open.enter_async_context(ProcessGroup(translators))
        asked = {"url": url, "asked": SUBSCRIBERS, "publishers": STEADY_PUBLISHERS}
        self._witnesses = await self._open.enter_async_context(
            ProcessGroup([WorkerProcess("subscribers", "witness", asked)])
        )
        common = {"url": url, "publishers": STEADY_PUBLISHERS, "linger": LINGER, "max_batch": SMALL_MESSAGE}
        publishers = [
            WorkerProcess(f"publisher {k}", "steady", {**common, "number": k}) for k in range(STEADY_PUBLISHERS)
        ]
        self._publishers = await self._open.enter_async_context(ProcessGroup(publishers))
        await wait_for_channels(self.broker, TOPIC, len(SUBSCRIBERS))


def pause(worker: WorkerProcess) -> None:
    """Let a process stand still, as a machine does that is moved or swaps."""
    os.kill(worker.pid, signal.SIGSTOP)


def resume(worker: WorkerProcess) -> None:
    """Let it go on as if nothing had happened."""
    os.kill(worker.pid, signal.SIGCONT)


FLOWING = (2.0, 5.0)
"""seconds in which events flow before anything happens"""
AFTERWARDS = 5.0
"""seconds in which they flow when it is over"""
TAKING_OVER = 120.0
"""seconds in which somebody must have taken over"""

Progress = Callable[[float], None]


@dataclass(frozen=True)
class TranslatorRecovery:
    """What came of a kill.

    stored: seconds from the kill to the first message of the successor; delivered: to the first event that was due
    after the kill, at the subscriber of a class that was last to have one; None where none ever came
    replayed: messages of the log that the successor had to read before it could go on
    findings: what is wrong with what each subscriber was handed
    """

    loaded: Loaded
    stored: float
    delivered: float | None
    replayed: int
    findings: tuple[Findings, ...]

    @property
    def faults(self) -> int:
        return sum(found.faults for found in self.findings)


@dataclass(frozen=True)
class Pause:
    """What came of a pause.

    taken_over: seconds until somebody else wrote; paused, holder: who stood still, and who had the topic in the end
    """

    seconds: float
    taken_over: float
    paused: str
    holder: str
    findings: tuple[Findings, ...]

    @property
    def faults(self) -> int:
        return sum(found.faults for found in self.findings)


async def recover(frames: int, seed: int, progress: Progress, **translators: Any) -> TranslatorRecovery:
    """Kill the translator of a topic with a log of so many frames."""
    async with ClassStage(**translators) as stage:
        loaded = await stage.load(frames)
        progress(0.6)
        await asyncio.sleep(Random(seed).uniform(*FLOWING))
        await stage.require_channels()
        worker, says = await stage.holder()
        watching = await stage.successor(says["epoch"])
        killed = micros()
        await worker.kill()
        to_replay = await stage.to_replay()
        stored = await asyncio.wait_for(watching, TAKING_OVER)
        came = await stage.first_after(killed)
        progress(0.8)
        await asyncio.sleep(AFTERWARDS)
        findings = await stage.finish()
    # the first subscriber reads the log, which no translator can hold up
    waits = [None if at is None else (at - killed) / 1e6 for at in came[1:]]
    delivered = None if None in waits else max(wait for wait in waits if wait is not None)
    return TranslatorRecovery(loaded, stored - killed / 1e6, delivered, to_replay, findings)


async def stand_still(seconds: float, progress: Progress, **translators: Any) -> Pause:
    """Stop the translator of a topic for so many seconds, and let it go on."""
    async with ClassStage(**translators) as stage:
        await stage.load(0)
        await asyncio.sleep(FLOWING[0])
        await stage.require_channels()
        worker, says = await stage.holder()
        watching = await stage.successor(says["epoch"])
        paused = micros()
        pause(worker)
        try:
            stored = await asyncio.wait_for(watching, TAKING_OVER)
            while (left := paused / 1e6 + seconds - micros() / 1e6) > 0:
                await asyncio.sleep(min(1.0, left))
                progress(0.9 * (1 - left / seconds))
        finally:
            resume(worker)
        await asyncio.sleep(AFTERWARDS)
        holder = await translator_of(stage.broker, TOPIC)
        findings = await stage.finish()
    return Pause(seconds, stored - paused / 1e6, says["name"], holder["name"], findings)
