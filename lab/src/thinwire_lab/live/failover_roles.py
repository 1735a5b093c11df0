"""Publishers and subscribers of a failover test as worker processes.

Publishers send the history of a feed as fast as possible and continue at its rate. Rate, start and end determine the
events, so subscribers are audited without information from the publishers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from thinwire import Subscription
from thinwire.demo.process_group import micros
from thinwire_lab.live.base_roles import BusRole
from thinwire_lab.live.delivery_audit import AuditResult, DeliveryRecord, audit_guarantee
from thinwire_lab.live.live_feed import SOURCES, TOPIC, GroundTruth, LoadSource, feed_truth
from thinwire_lab.live.load_roles import EVENT_FIELDS, TICK, last_instants

SLICE = 100_000
"""microseconds of the history that are published together"""
_FIELDS = EVENT_FIELDS["feed"]


class FeedPublisherRole(BusRole):
    """Publishes a feed: its history at once, then every event when it is due.

    settings: of `Bus.publisher`
    """

    def __init__(self, url: str, number: int, publishers: int, **settings: Any) -> None:
        super().__init__(url)
        self.number = number
        self.publishers = publishers
        self.settings = settings
        self._end: int | None = None

    async def open(self) -> None:
        self._publisher = await self.open_publisher(TOPIC, name=f"p{self.number}", **self.settings)

    async def do_load(self, rate: float, start: int, until: int) -> dict[str, Any]:
        """Publish the events from `start` to `until` at once, and the following ones when they are due."""
        self._feed = LoadSource(self.number, self.publishers, rate, start)
        self._position = start
        while self._position < until:
            await self._publish_slice(until)
        await self._publisher.flush()
        return {"frames": self._publisher.counts.frames, "messages": self._publisher.messages}

    async def do_continue(self) -> None:
        """Publish every following event when it is due."""
        self.start_task(self._publish_due())

    async def do_finish(self, end: int) -> dict[str, Any]:
        """Publish up to `end` and the final events, and return the last instant of each source."""
        self._end = end
        await asyncio.gather(*self.tasks)
        last = self._feed.final_events()
        await self._publisher.publish_all(last)
        await self._publisher.flush()
        return {"last": last_instants("feed", last)}

    async def _publish_due(self) -> None:
        while self._end is None or self._position < self._end:
            now = micros() if self._end is None else min(micros(), self._end)
            await self._publish_slice(now)
            await asyncio.sleep(TICK if self._position >= now else 0)

    async def _publish_slice(self, until: int) -> None:
        # published as one, a long history would block the event loop
        self._position = min(until, self._position + SLICE)
        await self._publisher.publish_all(self._feed.due(self._position))


class AuditedSubscription:
    """A subscription and its recorded events.

    reached: the last instant of each source
    arrivals: pairs of arrival and due instant, for each batch with an event that was due later than all before
    """

    def __init__(
        self, subscription: Subscription, tolerance: float, emit: Literal["all", "changes"], truth: GroundTruth
    ) -> None:
        self.subscription = subscription
        self.tolerance = tolerance
        self.emit = emit
        self.reached: dict[str, int] = {}
        self.arrivals: list[tuple[int, int]] = [(0, 0)]
        self._record = DeliveryRecord(truth, source=_FIELDS["source"], stamp=_FIELDS["stamp"])
        # the names of sources are in the order of publishers, `SOURCES` of each
        self._publishers = {name: index // SOURCES for index, name in enumerate(truth.names)}

    async def record_events(self) -> None:
        source, stamp, reached = _FIELDS["source"], _FIELDS["stamp"], self.reached
        async for batch in self.subscription.batches():
            self._record.add(batch)
            for event in batch:
                reached[event[source]] = event[stamp]
            newest = max(event[stamp] for event in batch)
            if newest > self.arrivals[-1][1]:
                self.arrivals.append((micros(), newest))

    def has_reached(self, instant: int) -> bool:
        """Return whether an event that was due at or after `instant` has arrived of every publisher."""
        newest = dict.fromkeys(self._publishers.values(), 0)
        for source, due in self.reached.items():
            newest[self._publishers[source]] = max(due, newest[self._publishers[source]])
        return min(newest.values()) >= instant

    def first_arrival_after(self, instant: int) -> int | None:
        """Return when the first event arrived that was due after `instant`."""
        return next((arrived for arrived, due in self.arrivals if due > instant), None)

    def audit(self, truth: GroundTruth, start: int) -> AuditResult:
        return audit_guarantee(self._record, truth, start, self.tolerance, self.emit)


class FeedSubscriberRole(BusRole):
    """Audited subscribers in one process.

    demands: tolerance and emit of each
    """

    def __init__(self, url: str, demands: Sequence[Mapping[str, Any]], publishers: int) -> None:
        super().__init__(url)
        self.demands = demands
        self.publishers = publishers
        self._subscribers: list[AuditedSubscription] = []

    async def open(self) -> None:
        truth = feed_truth(rate=1.0, publishers=self.publishers, seconds=0.0)
        for demand in self.demands:
            subscription = await self.subscribe(TOPIC, default_tolerance=demand["tolerance"], emit=demand["emit"])
            self._subscribers.append(AuditedSubscription(subscription, **demand, truth=truth))
        for subscriber in self._subscribers:
            self.start_task(subscriber.record_events())

    async def do_wait_for_instant(self, instant: int, max_wait: float) -> None:
        """Wait until events that were due at or after `instant` have arrived at all subscribers."""
        await self.wait_until(lambda: all(s.has_reached(instant) for s in self._subscribers), max_wait, settle=0.0)

    async def do_wait_for_last(self, last: dict[str, int], max_wait: float) -> None:
        """Wait until all subscribers have reached the last instant of every source."""
        await self.wait_until(lambda: all(s.reached == last for s in self._subscribers), max_wait)

    async def do_feeds(self) -> dict[str, Any]:
        """Return what each subscriber reads: "log" or "channel"."""
        return {"feeds": [subscriber.subscription.feed for subscriber in self._subscribers]}

    async def do_first_arrivals(self, instant: int) -> dict[str, Any]:
        """Return when each subscriber received the first event that was due after `instant`."""
        return {"arrivals": [subscriber.first_arrival_after(instant) for subscriber in self._subscribers]}

    async def do_audit(self, rate: float, seconds: float, start: int) -> dict[str, Any]:
        """Return the audit of each subscriber."""
        truth = feed_truth(rate, self.publishers, seconds)
        return {"results": [subscriber.audit(truth, start)._asdict() for subscriber in self._subscribers]}
