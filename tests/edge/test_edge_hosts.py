"""Edge hosts at a real broker: topics run on their assigned hosts and move without losing a message."""

import asyncio
import json

import pytest
from edge_setup import run_at_site, topic, until

from thinwire.edge import apply, read_edge, withdraw
from thinwire.edge.edge_documents import EDGE_REPORTS, EdgeReport, edge_log, edge_subject
from thinwire.topics.names import DEAD_LOG, dead_subject


def bodies(count, start=0):
    return [b"m%d" % n for n in range(start, start + count)]


def test_topics_are_processed_on_their_assigned_hosts():
    async def scenario(site):
        one, two = await site.host("h1"), await site.host("h2")
        hub = await site.connect()
        await apply(hub, [topic("a.gps"), topic("b.gps", "counted")], {"a.gps": "h1", "b.gps": "h2"})
        await site.publish("a.gps", bodies(20))
        await site.publish("b.gps", bodies(5))
        results = await site.results("a.gps.out", 20)
        assert [result.body for result in results] == [b"M%d" % n for n in range(20)]
        assert [result.origin for result in results] == list(range(1, 21))
        assert json.loads((await site.results("b.gps.out", 5))[0].body) == {"length": 2}
        assert (set(one.active_work), set(two.active_work)) == ({"a.gps"}, {"b.gps"})
        await until(lambda: one.active_work["a.gps"].done == 20)

    run_at_site(scenario)


@pytest.mark.slow
def test_failed_messages_become_dead_letters_and_other_topics_continue():
    async def scenario(site):
        host = await site.host("h1")
        hub = await site.connect()
        topics = [topic("a", "wayward", seconds=0.5, megabytes=64), topic("b")]
        await apply(hub, topics, {"a": "h1", "b": "h1"})
        orders = [b"fine", b"raise", b"garbage", b"hang", b"leak", b"exit", b"huge", b"fine"]
        await site.publish("a", orders)
        await site.publish("b", bodies(10))
        await hub.append(edge_log("a"), edge_subject("a", "p2"), b"no message of the edge")
        assert len(await site.results("b.out", 10)) == 10
        assert len(await site.results("a.out", 2)) == 2
        work = host.active_work["a"]
        await until(lambda: work.failed == 7)
        assert (work.done, host.active_work["b"].failed) == (2, 0)
        last = await hub.last(DEAD_LOG, dead_subject("a"))
        assert json.loads(last.payload)["error"] == "garbage"
        span = await hub.span(DEAD_LOG)
        assert span.messages == 7

    run_at_site(scenario)


async def _first_epoch_above(epoch, site):
    """Wait until a later lease holder of the topic has stored a result. Return its epoch."""
    async for _, result in read_edge(await site.connect(), "gps.out"):
        if result.epoch > epoch:
            return result.epoch


@pytest.mark.slow
def test_each_message_has_one_result_when_a_topic_moves_during_publishing():
    async def scenario(site):
        await site.host("h1")
        await site.host("h2")
        hub = await site.connect()
        gps = topic("gps", "slow")
        await apply(hub, [gps], {"gps": "h1"})
        publishing = asyncio.create_task(site.publish("gps", bodies(150)))
        epoch = 0
        for host in ("h2", "h1", "h2", "h1"):
            epoch = await _first_epoch_above(epoch, site)
            await apply(hub, [gps], {"gps": host})
        await publishing
        results = await site.results("gps.out", 150)
        assert [result.body for result in results] == bodies(150)
        assert len({result.epoch for result in results}) >= 4
        assert [result.origin for result in results] == list(range(1, 151))

    run_at_site(scenario)


def test_a_message_sent_twice_has_one_result_even_after_a_move():
    async def scenario(site):
        await site.host("h1")
        await site.host("h2")
        hub = await site.connect()
        await apply(hub, [topic("gps")], {"gps": "h1"})
        await site.publish("gps", bodies(3))
        await site.publish("gps", bodies(3))
        await site.results("gps.out", 3)
        await apply(hub, [topic("gps")], {"gps": "h2"})
        await site.publish("gps", bodies(3))
        await site.publish("gps", bodies(1, start=3), start=3)
        results = await site.results("gps.out", 4)
        assert [result.body for result in results] == [b"M0", b"M1", b"M2", b"M3"]
        assert (await hub.span(edge_log("gps.out"))).messages == 4

    run_at_site(scenario)


def test_messages_without_a_result_are_not_processed_again_after_a_move():
    async def scenario(site):
        one = await site.host("h1")
        two = await site.host("h2")
        hub = await site.connect()
        numbers = topic("numbers", "even_only")
        await apply(hub, [numbers], {"numbers": "h1"})
        await site.publish("numbers", [b"2", b"3", b"5", b"7"])
        await until(lambda: "numbers" in one.active_work and one.active_work["numbers"].done == 4)
        await apply(hub, [numbers], {"numbers": "h2"})
        await until(lambda: "numbers" in two.active_work)
        await site.publish("numbers", [b"4"], start=4)
        await until(lambda: two.active_work["numbers"].done == 1)
        assert [result.body for result in await site.results("numbers.out", 2)] == [b"2", b"4"]

    run_at_site(scenario)


@pytest.mark.slow
def test_topics_of_a_stopped_host_move_and_return_after_its_restart():
    async def scenario(site):
        await site.host("h1")
        two = await site.host("h2")
        hub = await site.connect()
        await apply(hub, [topic("gps")], {"gps": "h1"})
        await site.publish("gps", bodies(3))
        await site.results("gps.out", 3)
        await site.leave("h1")
        await site.publish("gps", bodies(3, start=3), start=3)
        assert len(await site.results("gps.out", 6)) == 6
        assert set(two.active_work) == {"gps"}
        restarted = await site.host("h1")
        await until(lambda: set(restarted.active_work) == {"gps"} and not two.active_work)

    run_at_site(scenario)


def test_hosts_report_statistics_and_stop_withdrawn_topics():
    async def scenario(site):
        host = await site.host("h1")
        hub = await site.connect()
        await apply(hub, [topic("gps")], {"gps": "h1"})
        await site.publish("gps", bodies(30))
        await site.results("gps.out", 30)
        await asyncio.sleep(0.5)
        entry = await (await hub.bucket(EDGE_REPORTS)).get("h1")
        report = EdgeReport.decode(entry.value).topics["gps"]
        assert (report.done, report.backlog, report.failed) == (30, 0, 0)
        assert report.p90 is not None
        assert report.rate is not None
        await withdraw(hub, "gps")
        await until(lambda: not host.active_work)

    run_at_site(scenario)


def test_a_changed_function_continues_at_the_position_of_the_old_one():
    async def scenario(site):
        await site.host("h1")
        hub = await site.connect()
        await apply(hub, [topic("gps")], {"gps": "h1"})
        await site.publish("gps", bodies(2))
        await site.results("gps.out", 2)
        await apply(hub, [topic("gps", "counted")], {"gps": "h1"})
        await asyncio.sleep(0.5)
        await site.publish("gps", bodies(1), start=2)
        results = await site.results("gps.out", 3)
        assert [result.body for result in results] == [b"M0", b"M1", b'{"length":2}']

    run_at_site(scenario)
