"""A subscriber of the demonstration: a process of its own that reports when it is asked.

Whoever sees what a subscriber is handed and knows what the plants really said.

>>> from thinwire.demo.demo_scenario import Guest
>>> witness = Witness(Guest("0.5", 0.5), RowTally("story"))
>>> witness.begin(whole=True)
>>> truth = PlantEvents(0).event(1)
>>> seen = truth | {"hot_tank_1": truth["hot_tank_1"] + 0.4}
>>> bound = {p.name: 0.5 if p.kind == "number" else 0.0 for p in SCHEMA.wire}
>>> witness.take(Event(seen, bound=bound, source=(truth["plant"], truth["controller"]), ordinal=1)) == truth
True
>>> witness.checked, witness.broken, witness.lost
(1, 0, 0)
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from math import inf
from time import process_time
from typing import Any

import thinwire as tw
from thinwire.analysis.json_baseline import compact_json
from thinwire.analysis.promise_check import SLACK
from thinwire.brokers.protocol_overhead import link_bytes
from thinwire.client import Subscription
from thinwire.codec import EventsMissed, Watermark
from thinwire.codec.demand import tolerance_of
from thinwire.demo.demo_scenario import GUESTS, PLANTS, SCHEMA, TOPIC, Guest, PlantEvents, SendSchedule, rehearse
from thinwire.demo.process_group import micros
from thinwire.ledger import Row, RowTally, to_document
from thinwire.schema import Event, Role, timestamps

_FORM = SCHEMA["timestamp"].form or ""
_TICKS, _PER_SECOND = timestamps.reader(_FORM), timestamps.ticks_per_second(_FORM) or 1


class Witness:
    """Compares every value of every event one subscriber is handed, and counts what is missing between them.

    Who asks for changes alone is handed few events. For it every event of the plants counts all the same: while nothing
    comes, the last value it was handed must be within its tolerance of the truth.

    guest: what the subscriber asked for

    checked, broken, lost: events compared, beyond their promise, and never handed out
    early: events handed out before the publisher knew of the tolerance. Each is within its own bound, which is wider
    last: how far each plant has come; breach: the first thing that was wrong, in words
    """

    def __init__(self, guest: Guest, tally: RowTally) -> None:
        demand = guest.document.demand
        wanted = [p for p in SCHEMA.wire if guest.wants(p.name)]
        self.guest = guest
        self.checked = self.broken = self.lost = self.early = 0
        self.breach = ""
        self.plants = {plant.name: plant for plant in map(PlantEvents, range(PLANTS))}
        self.last: dict[str, int] = {}
        self._tally = tally
        self._tolerances = {p.name: float(tolerance_of(SCHEMA, p, demand)) for p in wanted}
        self._measured = {p.name: self._tolerances[p.name] for p in wanted if p.role is Role.MEASUREMENT}
        self._in_force: set[str] = set()
        self._held: dict[str, Event] = {}

    def begin(self, *, whole: bool) -> None:
        """Events come from now on; a whole story has the first event of every plant."""
        self.last = dict.fromkeys(self.plants, 0) if whole else {}

    def take(self, event: Event) -> Mapping[str, Any] | None:
        """An event was handed out. Returns what the plant really said; None where it said no such thing."""
        name = str(event.source[0])
        plant, ordinal = self.plants.get(name), event.ordinal
        previous = self.last.get(name, ordinal - 1)
        if plant is None or ordinal <= previous:
            self._broken(f"event {ordinal} of {name} came after event {previous}")
            return None
        self._pass_over(name, ordinal - 1)
        self.last[name] = ordinal
        self.checked += 1
        truth = plant.event(ordinal)
        self._compare(name, event, truth)
        if self.guest.emit == "changes":
            self._held[name] = event
        return truth

    def expect(self, last: Mapping[str, int], *, covered: bool = True) -> None:
        """The plants have come this far and say no more: what was not handed out by now is lost.

        covered: has whoever asked for changes been told that there were no others?
        """
        for name, ordinal in last.items():
            if covered:
                self._pass_over(name, ordinal)
            else:
                self._miss(name, ordinal - self.last.get(name, ordinal))

    def complete(self, last: Mapping[str, int]) -> bool:
        """Has everything come that it must have? A plant it never heard of since it joined owes it nothing."""
        return all(self.last.get(name, ordinal) >= ordinal for name, ordinal in last.items())

    def _pass_over(self, name: str, last: int) -> None:
        """Nothing was handed out of what came after the last event, up to this one."""
        first = self.last.get(name, last) + 1
        if name not in self._held:
            self._miss(name, last + 1 - first)
            return
        for ordinal in range(first, last + 1):
            self.checked += 1
            if name in self._in_force:
                self._conform(name, ordinal, self.plants[name].event(ordinal))

    def _conform(self, name: str, ordinal: int, truth: Mapping[str, Any]) -> None:
        held = self._held[name]
        errors = {p: _distance(held.get(p), truth.get(p)) for p in self._measured}
        beyond = next((p for p, tolerance in self._measured.items() if errors[p] > tolerance), None)
        if beyond is not None:
            which = f"{beyond} of event {ordinal} of {name}, which was not handed out,"
            asked = f"asked was {self._measured[beyond]:g}"
            self._broken(f"{which} is {errors[beyond]:g} from event {held.ordinal}, the last that was; {asked}")
        for p, error in errors.items():
            self._tally.error(p, error, self._measured[p])

    def _compare(self, name: str, event: Event, truth: Mapping[str, Any]) -> None:
        # who asks for changes is promised nothing of the time of an event that was passed over in silence
        timeless = event.virtual and self.guest.emit == "changes"
        tolerances = self._measured if timeless else self._tolerances
        errors = {p: _distance(event.get(p), truth.get(p)) for p in tolerances}
        if not timeless:
            errors["timestamp"] = _seconds(event.get("timestamp"), truth["timestamp"])
        bounds = {p: inf if (bound := event.bound.get(p)) is None else bound for p in tolerances}
        wider = next((p for p, tolerance in tolerances.items() if bounds[p] > tolerance), None)
        beyond = next((p for p in tolerances if errors[p] > bounds[p]), None)
        strange = next((p for p in event if not self.guest.wants(p)), None)
        which = f"event {event.ordinal} of {name}"
        if strange is not None:
            self._broken(f"{which} has {strange}, which was not asked for")
        elif beyond is not None:
            self._broken(f"{beyond} of {which} is off by {errors[beyond]:g}, its bound is {bounds[beyond]:g}")
        elif wider is not None and name in self._in_force:
            self._broken(f"{wider} of {which} may be off by {bounds[wider]:g}, asked was {tolerances[wider]:g}")
        if wider is not None and name not in self._in_force:
            self.early += 1
            return
        self._in_force.add(name)
        for p, error in errors.items():
            self._tally.error(p, error, min(bounds[p], tolerances[p]))

    def _miss(self, name: str, events: int) -> None:
        if events > 0:
            self.lost += events
            self.breach = self.breach or f"{events} events of {name} were never handed out"

    def _broken(self, what: str) -> None:
        self.broken += 1
        self.breach = self.breach or what


def _seconds(seen: Any, truth: Any) -> float:
    """How far apart two timestamps are; infinite where one of them is none."""
    if seen == truth:
        return 0.0
    ticks, true_ticks = _TICKS(seen), _TICKS(truth)
    return inf if ticks is None or true_ticks is None else abs(ticks - true_ticks) / _PER_SECOND


def _distance(seen: Any, truth: Any) -> float:
    """How far apart; infinite where two values are different and have no distance."""
    if seen == truth:
        return 0.0
    if isinstance(seen, str | bool | None) or isinstance(truth, str | bool | None):
        return inf
    return max(0.0, float(abs(seen - truth) - SLACK * max(abs(seen), abs(truth))))


_POLL = 0.02


class SubscribingRole:
    """One of the guests, by its place among them. Commands: join, begin, report, end."""

    def __init__(self, url: str, run: str, guest: int) -> None:
        self.url = url
        self.guest = GUESTS[guest]
        self._opened = AsyncExitStack()
        self._tally = RowTally(run, TOPIC, "log", self.guest.name, "subscriber")
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
                self._task = asyncio.create_task(self._take_all(SendSchedule(command["start"], command["period"])))
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

    async def _take_all(self, pace: SendSchedule) -> None:
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
        elif isinstance(notice, EventsMissed):
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
