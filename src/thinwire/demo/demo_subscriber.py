"""A subscriber of the demonstration: a process of its own that reports when it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from time import process_time
from typing import Any

import thinwire as tw
from thinwire.analysis.json_baseline_references import compact_json
from thinwire.brokers.protocol_overhead import link_bytes
from thinwire.client import Subscription
from thinwire.codec import Missed, Watermark
from thinwire.demo.demo_scenario import GUESTS
from thinwire.demo.demo_scenario_plants import TOPIC, Pace, rehearse
from thinwire.demo.demo_subscriber_witness import Witness
from thinwire.demo.process_group_processes import micros
from thinwire.ledger import Row, Tally, to_document

_POLL = 0.02


class SubscribingRole:
    """One of the guests, by its place among them. Commands: join, begin, report, end."""

    def __init__(self, url: str, run: str, guest: int) -> None:
        self.url = url
        self.guest = GUESTS[guest]
        self._opened = AsyncExitStack()
        self._tally = Tally(run, TOPIC, "log", self.guest.name, "subscriber")
        self._json_link_bytes = 0
        self._marks: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        rehearse()
        self._witness = Witness(self.guest, self._tally)

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        match command["do"]:
            case "join":
                self._witness.begin(whole=command["whole"])
                await self._join()
            case "begin":
                self._task = asyncio.create_task(self._take_all(Pace(command["start"], command["period"])))
            case "end":
                await self._end(command["last"], command["stopped"], command["patience"])
        return self._report()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._opened.aclose()

    async def _join(self) -> None:
        self._cpu = process_time()
        bus = await self._opened.enter_async_context(tw.connect(self.url))
        asked = bus.subscribe(TOPIC, on_notice=self._note, **self.guest.asks)
        self._subscription: Subscription = await self._opened.enter_async_context(asked)
        self._read_back = sum(counts.frame_bytes for counts in self._subscription.counts.values())

    async def _take_all(self, pace: Pace) -> None:
        begun = micros()
        async for events in self._subscription.batches():
            now = micros()
            for event in events:
                truth = self._witness.take(event)
                self._tally.count(events=1, suppressed_events=int(event.virtual))
                if truth is not None:
                    self._weigh(truth)
                    instant = pace.instant(self._witness.plants[truth["plant"]].number, event.ordinal)
                    if instant >= begun:  # what was sent while it joined says nothing about the way
                        self._tally.latency(max(0, now - instant) / 1e6, virtual=event.virtual)

    def _weigh(self, truth: Mapping[str, Any]) -> None:
        """As plain JSON it would have what was asked for, and no more."""
        raw = len(compact_json(self.guest.share_of(truth)))
        self._tally.count(raw_bytes=raw)
        self._json_link_bytes += link_bytes(TOPIC, raw)

    def _note(self, notice: Any) -> None:
        if isinstance(notice, Watermark):
            self._marks[notice.publisher] = notice.time
        elif isinstance(notice, Missed):
            self._tally.count(told_missing=1)

    async def _end(self, last: Mapping[str, int], stopped: float, patience: float) -> None:
        """Wait until everything has come, or patience is over."""
        try:
            async with asyncio.timeout(patience):
                while not self._complete(last, stopped):
                    self._raise_failure()
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            pass
        self._witness.expect(last, covered=self._complete(last, stopped))

    def _complete(self, last: Mapping[str, int], stopped: float) -> bool:
        """Who asks for changes is not handed every event, but is told how far each publisher is complete."""
        if self.guest.emit == "all":
            return self._witness.complete(last)
        heard = (self._witness.plants[name].publisher for name in self._witness.last)
        return all(self._marks.get(publisher, 0.0) >= stopped for publisher in heard)

    def _raise_failure(self) -> None:
        if self._task is not None and self._task.done():
            self._task.result()

    def _report(self) -> dict[str, Any]:
        self._raise_failure()
        facts = ("checked", "broken", "lost", "early", "breach")
        return {
            "row": to_document(self._row()),
            "json_link_bytes": self._json_link_bytes,
            "read_back": self._read_back,
            **{name: getattr(self._witness, name) for name in facts},
        }

    def _row(self) -> Row:
        links = self._subscription.counts.values()
        sums = {
            name: sum(getattr(counts, name) for counts in links)
            for name in ("frames", "data_bytes", "key_bytes", "control_bytes")
        }
        reads = self._subscription.feed
        sums["dictionary_bytes"] = self._subscription.dictionary_bytes
        return replace(self._tally.row(), link=reads, **sums, cpu_seconds={"subscriber": process_time() - self._cpu})
