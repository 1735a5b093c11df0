"""Load and emulation: schedules are fixed, virtual cores behave as the simulator's, runs are documents."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.edge import EdgeReport, EdgeReporter, read_edge
from thinwire.edge.edge_documents import EDGE_REPORTS
from thinwire.edge.edge_messages import EdgeMessage
from thinwire.errors import ConfigError, CorruptFrame
from thinwire.placement import Host, TopicLoad
from thinwire_lab.live.edge.edge_failover import find_restored
from thinwire_lab.live.edge.edge_load import EdgeDelivery, TopicStream, schedule, send
from thinwire_lab.live.edge.host_emulation import TimedWorker, VirtualCores
from thinwire_lab.live.edge.load_harness import FIGURES, Configuration, LoadPlan, configurations, run_once
from thinwire_lab.placement.measured_runs import runs_document, runs_of


@given(st.floats(0.5, 50), st.floats(1, 20), st.sampled_from(["periodic", "poisson"]), st.integers(0, 99))
def test_a_schedule_is_in_order_within_its_time_and_the_same_for_a_seed(rate, seconds, arrivals, seed):
    first, again = (schedule(rate, seconds, arrivals, np.random.default_rng(seed)) for _ in range(2))
    assert first.tolist() == again.tolist() == sorted(first.tolist())
    assert first[0] >= 0
    assert first[-1] <= max(seconds, 1 / rate) + 1 / rate


@given(st.binary(max_size=200))
def test_garbage_gives_the_one_error(payload):
    try:
        found = EdgeMessage.decode(payload)
    except CorruptFrame:
        return
    assert found.encode() == payload


@given(st.floats(0, 1e10), st.text(min_size=1, max_size=40), st.binary(max_size=50), st.integers(0, 1 << 31))
def test_messages_come_back_as_they_were(due, name, body, origin):
    sent = EdgeMessage(due, name, body, 3, origin)
    assert EdgeMessage.decode(sent.encode()) == sent


def test_an_id_that_is_too_long_is_refused():
    with pytest.raises(ConfigError, match="limit"):
        EdgeMessage(0.0, "x" * 201, b"").encode()


class Virtual(asyncio.SelectorEventLoop):
    """A loop that does not wait: where nothing is to be done, time jumps."""

    def __init__(self):
        super().__init__()
        self._passed, select = 0.0, self._selector.select
        self._selector.select = lambda timeout: self._jump(timeout) or select(0)

    def _jump(self, timeout):
        self._passed += timeout or 0.0

    def time(self):
        return self._passed


def in_virtual_time(work):
    with asyncio.Runner(loop_factory=Virtual) as runner:
        return runner.run(work)


async def _ends(cores, jobs):
    """When each job ends, of those that begin at an instant and need so many seconds."""
    loop = asyncio.get_running_loop()

    async def one(begin, seconds):
        await asyncio.sleep(begin)
        await cores.occupy(seconds)
        return round(loop.time(), 6)

    return await asyncio.gather(*(one(*job) for job in jobs))


@pytest.mark.parametrize(
    ("cores", "contention", "jobs", "ends"),
    [
        (1, 0.0, [(0, 1), (0, 1)], [2, 2]),
        (1, 0.0, [(0, 2), (1, 0.5)], [2.5, 2]),
        (2, 0.0, [(0, 1), (0, 1), (0, 1)], [1.5, 1.5, 1.5]),
        (2, 0.1, [(0, 1), (0, 1)], [1.1, 1.1]),
        (4, 0.0, [(0, 1), (0.5, 1)], [1, 1.5]),
    ],
)
def test_busy_topics_share_virtual_cores_evenly(cores, contention, jobs, ends):
    own = VirtualCores(Host(cores=cores, contention=contention))
    assert in_virtual_time(_ends(own, jobs)) == pytest.approx(ends)


def test_a_cancelled_task_frees_its_core():
    async def run():
        own = VirtualCores(Host(cores=1, contention=0.0))
        given_up = asyncio.create_task(own.occupy(100.0))
        stays = asyncio.create_task(own.occupy(1.0))
        await asyncio.sleep(1.0)
        given_up.cancel()
        await stays
        return asyncio.get_running_loop().time()

    assert in_virtual_time(run()) == pytest.approx(1.5)


def test_emulated_work_is_the_same_for_the_same_message():
    async def run():
        worker = TimedWorker(VirtualCores(Host()), 0.1)
        return [(await worker.process(body, 1.0)).cpu for body in (b"1", b"1", b"2")]

    first, again, other = in_virtual_time(run())
    assert first == again != other


def test_a_limit_is_restored_only_if_it_holds_to_the_end():
    def late(slow):
        return [EdgeDelivery(due / 4, 2.0 if slow(due / 4) else 0.1) for due in range(240)]

    assert find_restored({"a": late(lambda t: False)}, 10.0, 60.0) == 0.0
    twice = {"a": late(lambda t: 11 <= t < 13 or 30 <= t < 32)}
    assert find_restored(twice, 10.0, 60.0) == pytest.approx(22, abs=1)
    assert find_restored({"a": late(lambda t: t > 58)}, 10.0, 60.0) is None


def test_publishers_share_the_messages_of_a_topic_and_a_subscriber_reports_their_lateness():
    async def run():
        broker = LocalBroker(LocalServer())
        await send(broker, [TopicStream("gps", np.zeros(10), publishers=3)], start=100.0)
        reporter = EdgeReporter(broker, "hvac")
        async for _, message in read_edge(broker, "gps", timeout=0.1):
            reporter.observe("gps", message, now=100.0 + int(message.id.rpartition("/")[2]))
        await reporter.report(now=110.0)
        await reporter.report(now=110.5)
        entry = await (await broker.bucket(EDGE_REPORTS)).get("subscriber-hvac")
        await broker.close()
        return EdgeReport.decode(entry.value)

    report = asyncio.run(run())
    assert (report.name, report.beat) == ("subscriber-hvac", 2)
    assert report.topics["gps"].p90 == 9.0
    with pytest.raises(ConfigError):
        EdgeReporter(None, "no word")


@pytest.mark.parametrize("figure", sorted(FIGURES))
def test_every_figure_has_configurations(figure):
    assert len(configurations(figure, Host(cores=1))) >= 3


def test_an_unknown_figure_is_refused():
    with pytest.raises(ConfigError, match="1a"):
        configurations("9z", Host())


@pytest.mark.slow
@pytest.mark.parametrize("burning", [False, True])
def test_a_measured_run_becomes_a_document(burning):
    topics = (TopicLoad("a", rate=10, interval=0.02), TopicLoad("b", rate=5, interval=0.04))
    run = asyncio.run(run_once(Configuration(topics, Host("h", cores=1)), LoadPlan(4.0, 1, burning), 1))
    assert [result.topic for result in run.results] == list(topics)
    for result in run.results:
        assert 0 < result.p50 <= result.p90 <= result.p99
        assert result.wall >= 0.8 * result.topic.interval
        assert (result.cpu > 0) == burning
    document = runs_document([run], machine="m", date="2026-01-01", how="test")
    assert [one.configuration for one in runs_of(document)] == [run.configuration]
