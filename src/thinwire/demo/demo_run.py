"""The demonstration as its parent sees it: who joins when, and what there is to see meanwhile.

Subscribers join one after another, the loosest first. Whenever one asks for more than those before, the registry tells
the publishers, the log becomes finer, and the translator opens channels for those who ask for less.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from types import TracebackType
from typing import Any

from thinwire.demo.demo_scenario import GUESTS, TOPIC, Guest, SendSchedule, asked_of
from thinwire.demo.demo_system import Stage
from thinwire.demo.process_group import Child, micros
from thinwire.demo.view_model import DemoView, Phase, SubscriberView, Translating, channel_of, phases_of, translator_row
from thinwire.ledger import Row

MAX_RATE = 1_000
"""events a second: what checking every value of every event leaves time for"""
JOINING = 0.5
"""the share of the time in which subscribers join; in the rest all are there"""
AHEAD = 0.3
"""seconds between the last preparation and the first event"""
PATIENCE = 20.0
"""seconds a subscriber is given to catch up after the last event"""
PULSE = 1.0
"""seconds between two reports"""

Report = dict[str, Any]


class Show:
    """One demonstration; use it with `async with`.

    run: its name in the ledger; rate: events a second; seconds: how long it plays
    together: all subscribers from the start; with_spark: the stream lands in a table, too
    """

    def __init__(
        self, run: str, rate: float, seconds: float, *, together: bool = False, with_spark: bool = False
    ) -> None:
        self.run = run
        self.rate = rate
        self.seconds = seconds
        self.with_spark = with_spark
        self._waiting = list(GUESTS)
        apart = 0.0 if together else JOINING * seconds / (len(GUESTS) - 1)
        self._joins = [place * apart for place in range(len(GUESTS))]
        seats = (
            SubscriberView(guest, at, _empty_row(run, guest)) for guest, at in zip(GUESTS, self._joins, strict=True)
        )
        self.view = DemoView(0.0, tuple(seats), Translating(translator_row(run)))
        self._before: dict[Guest, int] = {}
        self._begun: dict[str, int] = {}
        self._stage = Stage(run, with_spark=with_spark)

    async def __aenter__(self) -> Show:
        await self._stage.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stage.__aexit__(kind, error, trace)

    async def play(self, stopping: asyncio.Event, tell: Callable[[DemoView], Any]) -> None:
        """Let events flow until the time is over or somebody has seen enough, and tell what there is to see."""
        await self._begin()
        end = self.seconds
        while ((elapsed := self._elapsed()) < end or self._joins) and not stopping.is_set():
            if self._joins and elapsed >= self._joins[0]:
                await self._join_late()
                end = max(end, self._elapsed() + PULSE)  # on a busy machine too the last one sees something
            await self._look()
            tell(self.view)
            await _wait(stopping, min(elapsed + PULSE, end, *self._joins) - self._elapsed())
        await self._end(stopping)

    @property
    def rows(self) -> list[Row]:
        """What the ledger keeps: phases of publishers, translator and channels, subscribers, the table, the broker."""
        view = self.view
        channels = (channel.row for channel in view.translating.channels if channel.row.frames)
        return [
            *(phase.row for phase in view.phases),
            view.translating.row,
            *channels,
            *(seat.row for seat in view.seats),
            *([view.landing.row] if view.landing is not None else []),
            *view.stored,
        ]

    async def _begin(self) -> None:
        """Subscribers first, then the publishers: from the first event on somebody asks for it."""
        while self._joins and self._joins[0] <= 0:
            await self._join(whole=True)
        await self._stage.in_force(asked_of(self._before))
        await self._stage.ask(self._stage.publishers, do="connect")
        self._pace = SendSchedule.of(self.rate, micros() + round(AHEAD * 1e6))
        everybody = [*self._joined(), *self._stage.publishers, self._stage.translator]
        await self._stage.ask(everybody, do="begin", **self._pace.to_document())

    async def _join(self, whole: bool) -> None:
        """The next subscriber."""
        self._joins.pop(0)
        guest = self._waiting.pop(0)
        self._before[guest] = self._stage.publishers_bytes
        self._begun.setdefault(asked_of(self._before), self._stage.publishers_bytes)
        await self._stage.ask([self._stage.subscribers[guest]], do="join", whole=whole)

    async def _join_late(self) -> None:
        await self._join(whole=False)
        await self._stage.ask(self._joined()[-1:], do="begin", **self._pace.to_document())

    async def _look(self) -> None:
        """What everybody reports."""
        sent = await self._stage.ask(self._stage.publishers, do="report")
        taken = await self._stage.ask(self._joined(), do="report")
        await self._see(self._elapsed(), sent, taken)

    async def _end(self, stopping: asyncio.Event) -> None:
        """No more events; everybody takes what is on its way, and tells the last of it."""
        elapsed = self._elapsed()
        sent = await self._stage.ask(self._stage.publishers, do="stop")
        last = {name: ordinal for report in sent for name, ordinal in report["last"].items()}
        stopped = max(report["stopped"] for report in sent)
        taken = await self._stage.ask(self._joined(), do="end", last=last, stopped=stopped, patience=PATIENCE)
        await self._see(elapsed, sent, taken)
        self.view = replace(self.view, stored=tuple(await self._stage.stored()))
        if self._stage.spark is not None:
            landing = await self._stage.spark.end(self._stage.bus, last, stopping)
            self.view = replace(self.view, landing=landing)

    def _joined(self) -> list[Child]:
        return [self._stage.subscribers[guest] for guest in self._before]

    def _elapsed(self) -> float:
        return max(0.0, (micros() - self._pace.start) / 1e6)

    async def _see(self, elapsed: float, sent: Sequence[Report], taken: Sequence[Report]) -> None:
        reports = dict(zip(self._before, taken, strict=True))
        seats = tuple(self._seat(seat, reports.get(seat.guest)) for seat in self.view.seats)
        view = replace(self.view, elapsed=elapsed, seats=seats, phases=self._with_links(phases_of(sent)))
        spark = self._stage.spark
        landing = await spark.look() if spark is not None else None
        self.view = replace(view, translating=await self._translating(view), landing=landing)

    def _seat(self, seat: SubscriberView, report: Report | None) -> SubscriberView:
        if report is None:
            return seat
        own = self._stage.subscriber_bytes(seat.guest)
        return seat.reported(report, own, self._stage.publishers_bytes - self._before[seat.guest])

    async def _translating(self, view: DemoView) -> Translating:
        """What the translator reports, beside what the subscribers of each class read."""
        [report] = await self._stage.ask([self._stage.translator], do="report")
        subscribers = await self._stage.subscribers_by_class()
        row = translator_row(self.run, report, self._stage.translator_bytes)
        joined = (seat for seat in view.seats if seat.joined)
        channels = (channel_of(seat, report, subscribers[seat.guest.class_id]) for seat in joined)
        return Translating(row, tuple(channels))

    def _with_links(self, phases: Sequence[Phase]) -> tuple[Phase, ...]:
        """The same with the bytes of the publishers' sockets, from the joining that began each phase to the next."""
        begun = [0, *(self._begun[phase.in_force] for phase in phases[1:]), self._stage.publishers_bytes]
        return tuple(
            replace(phase, row=replace(phase.row, link_bytes=end - begin))
            for phase, (begin, end) in zip(phases, pairwise(begun), strict=True)
        )


def _empty_row(run: str, guest: Guest) -> Row:
    return Row(run, TOPIC, "", guest.name, "subscriber")


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Until the event is set, so many seconds at most."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), max(0.0, seconds))
