"""The demonstration: its processes, the order of its steps, and the figures that it shows.

    registry -------------------------+
    translator ------- proxy ---------+
    3 publishers ----- proxy ------ broker --- proxy --- 5 subscribers, one proxy each
                                      +------- proxy --- Spark

The proxies run in the parent and count the bytes in both directions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import thinwire as tw
from thinwire.brokers.embedded import LOOPBACK, EmbeddedServer
from thinwire.brokers.protocol import Broker
from thinwire.brokers.proxy import Proxy
from thinwire.client import Bus
from thinwire.demo.demo_scenario import (
    PLANTS,
    SCHEMA,
    SUBSCRIPTIONS,
    TOPIC,
    DemoSubscription,
    SendSchedule,
    describe_demand,
    publisher_tolerance,
)
from thinwire.demo.process_group import Answer, ProcessGroup, WorkerFailed, WorkerProcess, gather_answers, micros
from thinwire.demo.spark_table import SparkTable, TableView
from thinwire.errors import BrokerUnavailable
from thinwire.ledger import COUNTERS, Row, from_document, merge
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.names import REGISTRY, DocumentKind, channel_log_of, log_of
from thinwire.topics.topic_documents import SubscriptionDocument, decode
from thinwire.topics.topic_metadata import TopicMetadata

MAX_RATE = 1_000
"""events per second; above it, comparing all values takes longer than the time between two events"""
JOINING = 0.5
"""part of the time in which subscribers join"""
LEAD = 0.3
"""seconds between the last preparation and the first event"""
MAX_SILENCE = 1.0
REPORT_INTERVAL = 1.0
ANSWER_TIMEOUT = 30.0
END_TIMEOUT = 20.0
"""seconds for a subscriber to receive the last events"""
POLL_INTERVAL = 0.05


@dataclass(frozen=True)
class SubscriberView:
    """Figures of one subscriber.

    joins_at: seconds after the first event
    link_bytes: bytes on its socket, and on those of the publishers since it joined
    json_link_bytes: the same for one JSON message per event, computed
    read_back: frame bytes that it read from before it joined, to get the current state
    checked, broken, lost, early, breach: see `DeliveryCheck`
    """

    subscription: DemoSubscription
    joins_at: float
    row: Row
    joined: bool = False
    link_bytes: int = 0
    json_link_bytes: int = 0
    read_back: int = 0
    checked: int = 0
    broken: int = 0
    lost: int = 0
    early: int = 0
    breach: str = ""

    @property
    def kept(self) -> bool:
        """Whether all events were delivered, each within its bound."""
        return not self.broken and not self.lost


@dataclass(frozen=True)
class ChannelView:
    """Figures of the translator for one class.

    row: events since the channel was opened, and the frames that they became
    reads: the feed of its subscribers; link_bytes: on their sockets
    log_bytes: frames of the log in the same time
    """

    row: Row
    subscribers: int
    reads: str
    log_bytes: int
    link_bytes: int

    @property
    def less(self) -> float | None:
        """1 - channel bytes / log bytes. None without a channel."""
        return 1 - self.row.frame_bytes / self.log_bytes if self.row.frames and self.log_bytes else None


@dataclass(frozen=True)
class DemoView:
    """All figures at one moment.

    translator: events that it has read, and its processor time
    phases: the publishers, one row for each tolerance that was in force, which is its class
    stored: what the broker stores of log and channels
    """

    elapsed: float
    subscribers: tuple[SubscriberView, ...]
    translator: Row
    channels: tuple[ChannelView, ...] = ()
    phases: tuple[Row, ...] = ()
    stored: tuple[Row, ...] = ()
    table: TableView | None = None

    @property
    def events(self) -> int:
        """Published events."""
        return sum(row.events for row in self.phases)

    @property
    def translator_cpu(self) -> float | None:
        """Processor seconds of the translator per event, for all channels together."""
        row = self.translator
        return sum(row.cpu_seconds.values()) / row.events if row.events else None

    @property
    def kept(self) -> bool:
        """Whether no guarantee was violated and the table, if there is one, has the right rows."""
        return all(view.kept for view in self.subscribers) and (self.table is None or self.table.equal is not False)

    @property
    def rows(self) -> list[Row]:
        """The rows for the ledger."""
        channels = [channel.row for channel in self.channels if channel.row.frames]
        subscribers = [view.row for view in self.subscribers]
        table = [self.table.row] if self.table is not None else []
        return [*self.phases, self.translator, *channels, *subscribers, *table, *self.stored]


class DemoSystem:
    """The broker, the worker processes and the proxies between them. They stop when `stack` is closed."""

    def __init__(self, run: str, stack: AsyncExitStack) -> None:
        self.run = run
        self.table: SparkTable | None = None
        self._stack = stack

    async def start(self, *, with_spark: bool) -> None:
        enter = self._stack.enter_async_context
        self._server = await enter(EmbeddedServer())
        names = ["translator", "publishers", "spark", *(subscription.name for subscription in SUBSCRIPTIONS)]
        self._proxies = {name: await enter(Proxy(LOOPBACK, self._server.port)) for name in names}
        self.translator = self._worker("translator", "translator")
        self.publishers = [
            self._worker(f"publisher {plant + 1}", "publishers", run=self.run, plant=plant) for plant in range(PLANTS)
        ]
        self.subscribers = {
            subscription: self._worker(f"subscriber {index + 1}", subscription.name, run=self.run, subscription=index)
            for index, subscription in enumerate(SUBSCRIPTIONS)
        }
        registry = WorkerProcess("registry", "demo registry", {"url": self._server.url}, new_session=True)
        await enter(ProcessGroup([registry, self.translator, *self.publishers, *self.subscribers.values()]))
        bus: Bus = await enter(tw.connect(self._server.url))
        await bus.register(SCHEMA, max_silence=MAX_SILENCE)
        self._broker: Broker = bus.broker
        if with_spark:
            self.table = await enter(SparkTable(self.run, self._proxies["spark"], bus))

    def _worker(self, name: str, proxy: str, **settings: Any) -> WorkerProcess:
        url = f"nats://{LOOPBACK}:{self._proxies[proxy].port}"
        return WorkerProcess(name, f"demo {name.split(maxsplit=1)[0]}", {"url": url, **settings}, new_session=True)

    def bytes_on(self, proxy: str) -> int:
        """Return the bytes on the sockets of the translator, the publishers or one subscription."""
        return self._proxies[proxy].to_broker + self._proxies[proxy].from_broker

    async def ask(self, workers: Iterable[WorkerProcess], **command: Any) -> list[Answer]:
        """Send a command to workers and return their answers."""
        if not self._server.running:
            raise BrokerUnavailable(f"the broker has ended. Its log ends with:\n{self._server.log_tail()}\n")
        timeout = ANSWER_TIMEOUT + command.get("timeout", 0.0)
        return await gather_answers(worker.ask(timeout, **command) for worker in workers)

    async def wait_for_configuration(self, tolerance: str) -> None:
        """Wait until the registry has configured the publishers. Before that they would not publish."""
        topic = await TopicMetadata.find(self._broker, await self._broker.bucket(REGISTRY), TOPIC)
        for _ in range(round(ANSWER_TIMEOUT / POLL_INTERVAL)):
            config = await topic.configuration()
            if config is not None and config.wanted and describe_demand(config.demand) == tolerance:
                return
            await asyncio.sleep(POLL_INTERVAL)
        raise WorkerFailed("it has not configured the publishers", name="registry", waited=ANSWER_TIMEOUT)

    async def count_subscriptions(self) -> Counter[str]:
        """Return the number of subscriptions of each class, from the documents in the registry."""
        registry = await self._broker.bucket(REGISTRY)
        entries = await registry.entries(f"{DocumentKind.SUBSCRIPTION}.{TOPIC}.*")
        documents = (decode(entry.key, entry.value) for entry in entries if entry.value is not None)
        return Counter(DemandClass.of(found).id for found in documents if isinstance(found, SubscriptionDocument))

    async def stored(self) -> tuple[Row, ...]:
        """Return what the broker stores of the log and the channels."""
        rows = []
        for link, log in (("log", log_of(TOPIC)), ("channel", channel_log_of(TOPIC))):
            if log in await self._broker.logs():
                span = await self._broker.span(log)
                row = Row(self.run, TOPIC, link, role="broker", messages=span.messages)
                rows.append(replace(row, stored_bytes=span.stored_bytes))
        return tuple(rows)


@asynccontextmanager
async def open_demo(
    run: str, rate: float, seconds: float, *, all_at_once: bool = False, with_spark: bool = False
) -> AsyncIterator[Demo]:
    """Start all processes of a demonstration and stop them at the end.

    run: its name in the ledger; rate: events per second; seconds: duration
    all_at_once: all subscribers join before the first event; with_spark: write the log to a table, too
    """
    async with AsyncExitStack() as stack:
        system = DemoSystem(run, stack)
        await system.start(with_spark=with_spark)
        yield Demo(system, rate, seconds, all_at_once=all_at_once)


class Demo:
    """One run of the demonstration. `view` has its figures."""

    def __init__(self, system: DemoSystem, rate: float, seconds: float, *, all_at_once: bool) -> None:
        self.rate = rate
        self.seconds = seconds
        interval = 0.0 if all_at_once else JOINING * seconds / (len(SUBSCRIPTIONS) - 1)
        subscribers = tuple(
            SubscriberView(subscription, index * interval, Row(system.run, TOPIC, "", subscription.name, "subscriber"))
            for index, subscription in enumerate(SUBSCRIPTIONS)
        )
        self.view = DemoView(0.0, subscribers, Row(system.run, TOPIC, "log", role="translator"))
        self._system = system
        self._waiting = list(subscribers)
        self._joined: dict[DemoSubscription, int] = {}
        """joined subscriptions, with the bytes on the publishers' sockets at that time"""
        self._published = Row(system.run, TOPIC, "publishers", role="publisher")
        self._phases: list[tuple[str, Row]] = []
        """tolerances that were in force, with the figures of the publishers at their beginning"""

    async def play(self, stopping: asyncio.Event, on_view: Callable[[DemoView], Any]) -> None:
        """Run until the time is over or `stopping` is set. `on_view` is called about once a second."""
        await self._begin()
        end = self.seconds
        while ((elapsed := self._elapsed()) < end or self._waiting) and not stopping.is_set():
            if self._waiting and elapsed >= self._waiting[0].joins_at:
                await self._join()
                end = max(end, self._elapsed() + REPORT_INTERVAL)  # on a busy machine joining takes longer
            await self._report(self._elapsed(), do="report")
            on_view(self.view)
            next_step = min([elapsed + REPORT_INTERVAL, end, *(view.joins_at for view in self._waiting[:1])])
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), max(0.0, next_step - self._elapsed()))
        await self._end(stopping)

    async def _begin(self) -> None:
        """Start the first subscribers, then the publishers, which publish only what is requested."""
        system = self._system
        while self._waiting and self._waiting[0].joins_at <= 0:
            await self._subscribe(from_first_event=True)
        tolerance = publisher_tolerance(self._joined)
        self._phases.append((tolerance, self._published))
        await system.wait_for_configuration(tolerance)
        await system.ask(system.publishers, do="connect")
        self._schedule = SendSchedule.of(self.rate, micros() + round(LEAD * 1e6))
        workers = [*self._workers(), *system.publishers, system.translator]
        await system.ask(workers, do="begin", **asdict(self._schedule))

    async def _subscribe(self, *, from_first_event: bool) -> None:
        subscription = self._waiting.pop(0).subscription
        self._joined[subscription] = self._system.bytes_on("publishers")
        await self._system.ask(self._workers()[-1:], do="join", from_first_event=from_first_event)

    async def _join(self) -> None:
        """Let the next subscriber join. If the tolerance of the publishers changes, a new phase begins."""
        await self._subscribe(from_first_event=False)
        tolerance = publisher_tolerance(self._joined)
        if tolerance != self._phases[-1][0]:
            await self._count_published("report")
            self._phases.append((tolerance, self._published))
        await self._system.ask(self._workers()[-1:], do="begin", **asdict(self._schedule))

    async def _end(self, stopping: asyncio.Event) -> None:
        """Stop the publishers, and wait until subscribers and table have everything."""
        elapsed = self._elapsed()
        reports = await self._count_published("stop")
        last = {name: ordinal for report in reports for name, ordinal in report["last"].items()}
        stopped = max(report["stopped"] for report in reports)
        await self._report(elapsed, do="end", last=last, stopped=stopped, timeout=END_TIMEOUT)
        self.view = replace(self.view, stored=await self._system.stored())
        if self._system.table is not None:
            self.view = replace(self.view, table=await self._system.table.finish(last, stopping))

    async def _report(self, elapsed: float, **command: Any) -> None:
        """Update the view. The subscribers answer `command` with their figures."""
        system = self._system
        await self._count_published("report")
        reports = dict(zip(self._joined, await system.ask(self._workers(), **command), strict=True))
        subscribers = tuple(self._update(view, reports.get(view.subscription)) for view in self.view.subscribers)
        [report] = await system.ask([system.translator], do="report")
        translated = {"events": report["events"], "cpu_seconds": {"translator": report["cpu"]}}
        counts = await system.count_subscriptions()
        self.view = DemoView(
            elapsed,
            subscribers,
            replace(self.view.translator, link_bytes=system.bytes_on("translator"), **translated),
            tuple(channel_view(view, report["classes"], counts) for view in subscribers if view.joined),
            phase_rows(self._phases, self._published),
            table=await system.table.view() if system.table is not None else None,
        )

    def _update(self, view: SubscriberView, report: Answer | None) -> SubscriberView:
        if report is None:
            return view
        own = self._system.bytes_on(view.subscription.name)
        since_join = self._system.bytes_on("publishers") - self._joined[view.subscription]
        row = replace(from_document(report.pop("row")), link_bytes=own)
        return replace(view, row=row, joined=True, link_bytes=own + since_join, **report)

    async def _count_published(self, do: str) -> list[Answer]:
        reports = await self._system.ask(self._system.publishers, do=do)
        total = merge(from_document(report["row"]) for report in reports)
        self._published = replace(total, link_bytes=self._system.bytes_on("publishers"))
        return reports

    def _workers(self) -> list[WorkerProcess]:
        """Return the processes of the subscribers that have joined."""
        return [self._system.subscribers[subscription] for subscription in self._joined]

    def _elapsed(self) -> float:
        return max(0.0, (micros() - self._schedule.start) / 1e6)


def channel_view(view: SubscriberView, classes: Mapping[str, Any], subscriptions: Mapping[str, int]) -> ChannelView:
    """Return the figures of a subscriber's class; `classes` is reported by the translator."""
    figures = dict(classes.get(view.subscription.class_id, {}))
    log_bytes = figures.pop("log_bytes", view.row.frame_bytes)
    row = Row(view.row.run, TOPIC, "channel", view.subscription.name, "translator", **figures)
    subscribers = subscriptions.get(view.subscription.class_id, 0)
    return ChannelView(row, subscribers, view.row.link, log_bytes, view.row.link_bytes)


def phase_rows(starts: Sequence[tuple[str, Row]], published: Row) -> tuple[Row, ...]:
    """Return a row for each phase: the difference of the publishers' figures at its end and at its beginning.

    >>> starts = [("1", Row("run")), ("0.5", Row("run", events=7))]
    >>> [(row.class_, row.events) for row in phase_rows(starts, Row("run", events=9))]
    [('1', 7), ('0.5', 2)]
    """
    rows = []
    ends = [*(row for _, row in starts[1:]), published]
    for (tolerance, start), end in zip(starts, ends, strict=True):
        counters = {name: getattr(end, name) - getattr(start, name) for name in COUNTERS}
        rows.append(replace(published, class_=tolerance, cpu_seconds={}, **counters))
    return (*rows[:-1], replace(rows[-1], cpu_seconds=published.cpu_seconds))
