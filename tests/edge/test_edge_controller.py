"""Controllers at a real broker: leader election, moves after a missed latency limit, moves from a stopped host."""

import asyncio
import gc
import time
import warnings
from functools import cache

import pytest
from edge_setup import TERM, ended, run_at_site, until

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.edge import Controller, EdgePublisher, EdgeTopic, apply
from thinwire.edge.assignment import change_assignment
from thinwire.edge.controller import LEADER
from thinwire.edge.edge_documents import ASSIGNMENT, EDGE, Assignment
from thinwire.edge.placement_files import read_model
from thinwire.edge.topic_worker import WorkerOutcome


@cache
def model():
    return read_model(None)


async def controller(site, name, **settings):
    own = Controller(await site.connect(), model(), name=name, term=TERM, tick=0.2, pause=2.0, **settings)
    task = site.tasks[name] = asyncio.create_task(own.run())
    site.stack.push_async_callback(ended, task)
    return own


class TimedWorker:
    """Occupies a core for the interval of its topic."""

    def __init__(self, core, interval):
        self.core, self.interval = core, interval

    async def start(self):
        pass

    async def process(self, body, seconds):
        start = time.time()
        async with self.core:
            await asyncio.sleep(self.interval)
        return WorkerOutcome("result", body, start, time.time(), self.interval)

    async def close(self):
        pass


def one_core():
    core = asyncio.Lock()
    return lambda topic: TimedWorker(core, topic.interval)


async def assignment(broker):
    return Assignment.decode((await (await broker.bucket(EDGE)).get(ASSIGNMENT)).value)


@pytest.mark.slow
def test_one_controller_leads_and_the_other_takes_over():
    async def scenario(site):
        one = await controller(site, "c1")
        await until(lambda: LEADER in one.active_work)
        two = await controller(site, "c2")
        await asyncio.sleep(2 * TERM)
        assert (LEADER in one.active_work, LEADER in two.active_work) == (True, False)
        await site.leave("c1")
        await until(lambda: LEADER in two.active_work)

    run_at_site(scenario)


@pytest.mark.slow
def test_the_controller_moves_topics_of_a_stopped_host():
    async def scenario(site):
        await site.host("h1")
        two = await site.host("h2")
        hub = await site.connect()
        await apply(hub, [EdgeTopic("gps", "edge_functions:shout", rate=5, interval=0.01)], {"gps": "h1"})
        own = await controller(site, "c1")
        await until(lambda: LEADER in own.active_work)
        await site.leave("h1")
        await until(lambda: own.moved == [("gps", "h2")])
        assert (await assignment(hub)).hosts == {"gps": "h2"}
        assert (await assignment(hub)).epoch == 1
        await until(lambda: set(two.active_work) == {"gps"})

    run_at_site(scenario)


@pytest.mark.slow
def test_topics_move_when_the_latency_limit_is_exceeded():
    async def scenario(site):
        one = await site.host("h1", cores=1, worker=one_core())
        two = await site.host("h2", cores=1, worker=one_core())
        hub = await site.connect()
        topics = [EdgeTopic(name, "none:none", rate=5, interval=0.11, promise=0.5) for name in ("a", "b")]
        await apply(hub, topics, {"a": "h1", "b": "h1"})
        await controller(site, "c1")
        publishers = [EdgePublisher(await site.connect(), topic.topic, "p") for topic in topics]
        number = 0
        async with asyncio.timeout(150):
            while not (one.active_work and two.active_work):
                for publisher in publishers:
                    await publisher.publish(b"%d" % number, id=str(number), due=time.time())
                number += 1
                await asyncio.sleep(0.2)
        assert len(one.active_work) == len(two.active_work) == 1

    run_at_site(scenario, timeout=240)


def test_concurrent_changes_of_the_assignment_are_all_applied():
    async def scenario(site):
        hub = await site.connect()
        bucket = await hub.bucket(EDGE)
        await asyncio.gather(*(change_assignment(bucket, {f"t{n}": "h1"}) for n in range(5)))
        found = await assignment(hub)
        assert (found.version, set(found.hosts)) == (5, {f"t{n}" for n in range(5)})

    run_at_site(scenario)


def test_a_controller_cancelled_early_leaves_no_coroutine_unawaited():
    async def renew():
        controller = Controller(LocalBroker(LocalServer()), model())
        controller._follower.complete.set()
        renewing = asyncio.create_task(controller._renew_leases())
        await asyncio.sleep(0)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        asyncio.run(renew())
        gc.collect()
    assert [str(warning.message) for warning in found if "never awaited" in str(warning.message)] == []
