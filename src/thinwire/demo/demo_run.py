"""The demonstration: its processes, the order of its steps, and the figures that it shows.

    registry -------------------------+
    translator ------- proxy ---------+
    3 publishers ----- proxy ------ broker --- proxy --- 5 subscribers, one proxy each
                                      +------- proxy --- Spark

The proxies run in the parent and count the bytes in both directions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import thinwire as tw
from thinwire.brokers.embedded import LOOPBACK, EmbeddedServer
from thinwire.brokers.protocol import Broker
from thinwire.brokers.proxy import Proxy
from thinwire.client.bus import Bus
from thinwire.demo.delivery_check import CheckResult
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
from thinwire.demo.process_group import Answer, WorkerFailed, WorkerProcess, gather_answers, micros, process_group
from thinwire.demo.spark_table import ParquetView, SparkTable, open_spark_table
from thinwire.errors import BrokerUnavailable
from thinwire.ledger import COUNTERS, Row, from_document, merge
from thinwire.topics.names import REGISTRY, channel_log_of, log_of
from thinwire.topics.topic_metadata import TopicMetadata

MAX_RATE = 1_000
"""events per second; above it, comparing all values takes longer than the time between two events"""
JOIN_SHARE = 0.5
"""part of the duration in which the subscribers join"""
START_DELAY = 0.3
"""seconds between the start of the publishers and the first event"""
MAX_SILENCE = 1.0
"""seconds after which a publisher sends a heartbeat"""
REPORT_INTERVAL = 1.0
ANSWER_TIMEOUT = 50.0
POLL_INTERVAL = 0.05


@dataclass(frozen=True)
class SubscriberView:
    """Figures of one subscriber, and of the translator for its demand class.

    joins_at: seconds from the first event to the start of the subscription
    row: the figures of the subscriber as a row of the ledger; `link` is what the subscription reads, log or channel
    channel: events of the log since the channel of its class was opened, and the frames of the channel
    log_bytes: frame bytes of the log since the channel was opened
    link_bytes: bytes on the socket of the subscriber, and on those of the publishers since the subscriber joined
    json_link_bytes: computed bytes on the same sockets, if each event were one JSON message
    """

    subscription: DemoSubscription
    joins_at: float
    row: Row
    channel: Row
    has_joined: bool = False
    log_bytes: int = 0
    link_bytes: int = 0
    json_link_bytes: int = 0
    check: CheckResult = field(default_factory=CheckResult)

    @property
    def saved_of_log(self) -> float | None:
        """1 - channel bytes / log bytes. None without a channel."""
        return 1 - self.channel.frame_bytes / self.log_bytes if self.channel.frames and self.log_bytes else None


@dataclass(frozen=True)
class DemoView:
    """All figures at one moment.

    elapsed: seconds since the first event
    translator: events that the translator has read, and the processor time for them
    phases: figures of the publishers, one row for each tolerance that they applied; `class_` is the tolerance
    stored: what the broker stores of the log and the channels
    """

    elapsed: float
    subscribers: tuple[SubscriberView, ...]
    translator: Row
    phases: tuple[Row, ...] = ()
    stored: tuple[Row, ...] = ()
    parquet: ParquetView | None = None

    @property
    def events(self) -> int:
        """Number of published events."""
        return sum(row.events for row in self.phases)

    @property
    def translator_cpu(self) -> float | None:
        """Processor seconds of the translator per event, for all channels together."""
        row = self.translator
        return sum(row.cpu_seconds.values()) / row.events if row.events else None

    @property
    def is_guarantee_met(self) -> bool:
        """Whether no event was lost or violated its bound, and the table, if there is one, has the right rows."""
        is_table_right = self.parquet is None or self.parquet.is_complete is not False
        return is_table_right and all(view.check.is_guarantee_met for view in self.subscribers)

    @property
    def rows(self) -> list[Row]:
        """The rows for the ledger."""
        channels = [view.channel for view in self.subscribers if view.channel.frames]
        table = [self.parquet.row] if self.parquet is not None else []
        subscribers = [view.row for view in self.subscribers]
        return [*self.phases, self.translator, *channels, *subscribers, *table, *self.stored]


class DemoSystem:
    """The broker, the worker processes and the proxies between them. They stop when `stack` is closed.

    run: name of the run in the ledger
    """

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
        registry = WorkerProcess("registry", "demo registry", {"url": self._server.url})
        await enter(process_group([registry, self.translator, *self.publishers, *self.subscribers.values()]))
        bus: Bus = await enter(tw.connect(self._server.url))
        await bus.register(SCHEMA, max_silence=MAX_SILENCE)
        self._broker: Broker = bus.broker
        if with_spark:
            self.table = await enter(open_spark_table(self.run, self._proxies["spark"]))

    def _worker(self, name: str, proxy: str, **settings: Any) -> WorkerProcess:
        url = f"nats://{LOOPBACK}:{self._proxies[proxy].port}"
        return WorkerProcess(name, f"demo {name.split(maxsplit=1)[0]}", {"url": url, **settings})

    def bytes_on(self, proxy: str) -> int:
        """Return the bytes on the sockets of the translator, the publishers or one subscription."""
        return self._proxies[proxy].to_broker + self._proxies[proxy].from_broker

    async def request(self, workers: Iterable[WorkerProcess], **command: Any) -> list[Answer]:
        """Send a command to workers and return their answers."""
        if not self._server.running:
            raise BrokerUnavailable(f"the broker has exited. End of its log:\n{self._server.log_tail()}\n")
        return await gather_answers(worker.request(ANSWER_TIMEOUT, **command) for worker in workers)

    async def wait_for_configuration(self, tolerance: str) -> None:
        """Wait until the registry has configured the publishers. Before that they would not publish."""
        topic = await TopicMetadata.find(self._broker, await self._broker.bucket(REGISTRY), TOPIC)
        for _ in range(round(ANSWER_TIMEOUT / POLL_INTERVAL)):
            config = await topic.configuration()
            if config is not None and config.wanted and describe_demand(config.demand) == tolerance:
                return
            await asyncio.sleep(POLL_INTERVAL)
        raise WorkerFailed("the publishers were not configured", name="registry", waited=ANSWER_TIMEOUT)

    async def stored(self) -> tuple[Row, ...]:
        """Return what the broker stores of the log and the channels."""
        rows = []
        for link, log in (("log", log_of(TOPIC)), ("channel", channel_log_of(TOPIC))):
            if log in await self._broker.logs():
                span = await self._broker.span(log)
                counters: dict[str, Any] = {"messages": span.messages, "stored_bytes": span.stored_bytes}
                rows.append(Row(self.run, TOPIC, link, role="broker", **counters))
        return tuple(rows)


@asynccontextmanager
async def open_demo(
    run: str, rate: float, seconds: float, *, all_at_once: bool = False, with_spark: bool = False
) -> AsyncIterator[Demo]:
    """Start all processes of a demonstration and stop them at the end.

    run: name of the run in the ledger
    rate: events per second
    seconds: duration
    all_at_once: all subscribers join before the first event
    with_spark: Spark writes the log to a table
    """
    async with AsyncExitStack() as stack:
        system = DemoSystem(run, stack)
        await system.start(with_spark=with_spark)
        yield Demo(system, rate, seconds, all_at_once=all_at_once)


class Demo:
    """One run of the demonstration. `view` has the figures of the run."""

    def __init__(self, system: DemoSystem, rate: float, seconds: float, *, all_at_once: bool) -> None:
        self.rate = rate
        self.seconds = seconds
        interval = 0.0 if all_at_once else JOIN_SHARE * seconds / (len(SUBSCRIPTIONS) - 1)
        subscribers = tuple(
            SubscriberView(
                subscription,
                index * interval,
                Row(system.run, TOPIC, "", subscription.name, "subscriber"),
                Row(system.run, TOPIC, "channel", subscription.name, "translator"),
            )
            for index, subscription in enumerate(SUBSCRIPTIONS)
        )
        self.view = DemoView(0.0, subscribers, Row(system.run, TOPIC, "log", role="translator"))
        self._system = system
        self._waiting = list(subscribers)
        self._joined: dict[DemoSubscription, int] = {}
        """joined subscriptions, with the bytes on the publishers' sockets when the subscription joined"""
        self._published = Row(system.run, TOPIC, "publishers", role="publisher")
        self._phases: list[tuple[str, Row]] = []
        """tolerances of the publishers, with the figures of the publishers when they were requested"""

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
            await self._subscribe()
        tolerance = publisher_tolerance(self._joined)
        self._phases.append((tolerance, self._published))
        await system.wait_for_configuration(tolerance)
        await system.request(system.publishers, do="connect")
        self._schedule = SendSchedule.of(self.rate, micros() + round(START_DELAY * 1e6))
        schedule = asdict(self._schedule)
        await system.request(self._workers(), do="begin", **schedule, joined=0)
        await system.request([*system.publishers, system.translator], do="begin", **schedule)

    async def _subscribe(self) -> None:
        subscription = self._waiting.pop(0).subscription
        self._joined[subscription] = self._system.bytes_on("publishers")
        await self._system.request(self._workers()[-1:], do="join")

    async def _join(self) -> None:
        """Start the next subscriber. If the tolerance of the publishers changes, a new phase begins."""
        await self._subscribe()
        joined = micros()
        tolerance = publisher_tolerance(self._joined)
        if tolerance != self._phases[-1][0]:
            await self._request_of_publishers("report")
            self._phases.append((tolerance, self._published))
        await self._system.request(self._workers()[-1:], do="begin", **asdict(self._schedule), joined=joined)

    async def _end(self, stopping: asyncio.Event) -> None:
        """Stop the publishers, and wait until subscribers and table have everything."""
        elapsed = self._elapsed()
        reports = await self._request_of_publishers("stop")
        last = {name: ordinal for report in reports for name, ordinal in report["last"].items()}
        stop_time = max(report["stop_time"] for report in reports)
        await self._report(elapsed, do="end", last=last, stop_time=stop_time)
        self.view = replace(self.view, stored=await self._system.stored())
        if self._system.table is not None:
            self.view = replace(self.view, parquet=await self._system.table.finish(sum(last.values()), stopping))

    async def _report(self, elapsed: float, **command: Any) -> None:
        """Update the view. The subscribers answer `command` with their figures."""
        system = self._system
        await self._request_of_publishers("report")
        answers = await system.request(self._workers(), **command)
        [translated] = await system.request([system.translator], do="report")
        views, waiting = self.view.subscribers[: len(answers)], self.view.subscribers[len(answers) :]
        joined = [self._update(*pair, translated["classes"]) for pair in zip(views, answers, strict=True)]
        translator = {"events": translated["events"], "cpu_seconds": {"translator": translated["cpu"]}}
        self.view = DemoView(
            elapsed,
            (*joined, *waiting),
            replace(self.view.translator, link_bytes=system.bytes_on("translator"), **translator),
            phase_rows(self._phases, self._published),
            parquet=system.table.view() if system.table is not None else None,
        )

    def _update(self, view: SubscriberView, answer: Answer, classes: Mapping[str, Any]) -> SubscriberView:
        """Return the figures of a joined subscriber. `classes` has the figures of the translator by class id."""
        own_bytes = self._system.bytes_on(view.subscription.name)
        row = replace(from_document(answer["row"]), link_bytes=own_bytes)
        figures = dict(classes.get(view.subscription.class_id, {}))
        return replace(
            view,
            row=row,
            has_joined=True,
            log_bytes=figures.pop("log_bytes", row.frame_bytes),
            channel=replace(view.channel, **figures),
            link_bytes=own_bytes + self._system.bytes_on("publishers") - self._joined[view.subscription],
            json_link_bytes=answer["json_link_bytes"],
            check=CheckResult(**answer["check"]),
        )

    async def _request_of_publishers(self, command: str) -> list[Answer]:
        """Send a command to the publishers, update their figures and return their answers."""
        reports = await self._system.request(self._system.publishers, do=command)
        total = merge(from_document(report["row"]) for report in reports)
        self._published = replace(total, link_bytes=self._system.bytes_on("publishers"))
        return reports

    def _workers(self) -> list[WorkerProcess]:
        """Return the processes of the subscribers that have joined."""
        return [self._system.subscribers[subscription] for subscription in self._joined]

    def _elapsed(self) -> float:
        return max(0.0, (micros() - self._schedule.start) / 1e6)


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
