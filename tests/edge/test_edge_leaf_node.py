"""A host with its own broker as a leaf node: local messages stay local, and a killed host loses nothing."""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from edge_setup import FUNCTIONS, Site, run_at_site, topic, until

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats.broker import connect
from thinwire.edge import EdgeHostDocument, EdgePublisher, apply
from thinwire.edge.edge_host import edge_node, edge_server

ROOT = Path(__file__).parents[2]


def test_messages_that_stay_at_their_host_never_reach_the_hub():
    asyncio.run(_near())


async def _near():
    from contextlib import AsyncExitStack

    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(EmbeddedServer(leaves=0))
        site = Site(server, stack)
        hub = await site.connect()
        own = await stack.enter_async_context(edge_server("h1", server.leaf_url))
        document = EdgeHostDocument("h1")
        await stack.enter_async_context(edge_node(hub, document, own, path=[FUNCTIONS], term=1.0))
        local = await connect(own.url)
        stack.push_async_callback(local.close)
        received = []

        async def record(subject, payload):
            received.append(subject)

        for pattern in ("tw.near.>", "tw.other"):
            listener = await hub.listen(pattern, record)
            stack.push_async_callback(listener.close)
        gps = topic("gps", "counted", upstream="results", host="h1")
        broken = topic("bad", "wayward", upstream="results", host="h1")
        await apply(hub, [gps, broken], {"gps": "h1", "bad": "h1"})
        publisher = EdgePublisher(local, "gps", "taxi-1", near=True)
        for number in range(5):
            await publisher.publish(b"38.71,-9.14", id=f"t/{number}", due=time.time())
        await EdgePublisher(local, "bad", "taxi-1", near=True).publish(b"raise", id="secret", due=time.time())
        results = await site.results("gps.out", 5)
        assert [json.loads(result.body) for result in results] == [{"length": 11}] * 5
        # wait until the leaf node is connected: other subjects reach the hub, and local ones would have by now
        async with asyncio.timeout(20):
            while "tw.other" not in received:
                await local.send("tw.other", b"")
                await asyncio.sleep(0.05)
        assert set(received) == {"tw.other"}
        assert not [log for log in await hub.logs() if "near" in log]
        await check_dead_letter(hub)


async def check_dead_letter(hub):
    """Wait for the dead letter of the failed message. It states the kind of failure and no content."""
    async with asyncio.timeout(20):
        while "tw_dead" not in await hub.logs() or (await hub.last("tw_dead", "tw.dead.bad")) is None:
            await asyncio.sleep(0.05)
    letter = json.loads((await hub.last("tw_dead", "tw.dead.bad")).payload)
    assert (letter["error"], letter["event"], letter["reason"]) == ("raised", "stays at its host", "")


async def started(name, url, *more):
    """A host in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "thinwire", "edge", "--name", name, "--hub", url, "--path", FUNCTIONS, "--json", *more,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    line = json.loads(await process.stdout.readline())
    assert (line["name"], line["pid"]) == (name, process.pid)
    return process


async def stop(process):
    if process.returncode is None:
        os.kill(process.pid, signal.SIGTERM)
    await process.communicate()


@pytest.mark.slow
def test_another_host_takes_over_from_a_killed_host_without_loss(tmp_path):
    async def scenario(site):
        hub = await site.connect()
        processes = {name: await started(name, site.server.url) for name in ("h1", "h2")}
        try:
            topics = [topic(name, "recorded") for name in ("a", "b")]
            await apply(hub, topics, {"a": "h1", "b": "h2"})
            calls = {name: tmp_path / name for name in ("a", "b")}
            sent = dict.fromkeys(calls, 0)

            async def publish(name, count):
                orders = [{"file": str(calls[name]), "n": sent[name] + n, "seconds": 0.01} for n in range(count)]
                await site.publish(name, [json.dumps(order).encode() for order in orders], start=sent[name])
                sent[name] += count

            await publish("a", 30)
            await publish("b", 30)
            await site.results("a.out", 10)
            os.kill(processes["h1"].pid, signal.SIGKILL)
            killed = time.monotonic()
            await publish("a", 50)
            assert len(await site.results("a.out", 80, timeout=60)) == 80
            taken = time.monotonic() - killed
            results = await site.results("a.out", 80)
            assert [json.loads(result.body)["n"] for result in results] == list(range(80))
            assert len({result.id for result in results}) == 80
            # the function is called at least once: messages in progress when the host was killed are processed again
            numbers = [int(line) for line in calls["a"].read_text().split()]
            assert set(numbers) == set(range(80))
            assert len(numbers) <= 80 + 3
            assert len(await site.results("b.out", 30)) == 30
            assert {result.epoch for result in results} == {1, 2}
            print(f"taken over and done {taken:.1f} s after the kill")
        finally:
            for process in processes.values():
                await stop(process)

    run_at_site(scenario, timeout=240)


@pytest.mark.slow
def test_a_host_resumed_after_a_pause_writes_no_duplicates(tmp_path):
    async def scenario(site):
        hub = await site.connect()
        process = await started("h1", site.server.url)
        try:
            two = await site.host("h2")
            await apply(hub, [topic("a", "slow")], {"a": "h1"})
            publishing = asyncio.create_task(site.publish("a", [b"%d" % n for n in range(400)]))
            await site.results("a.out", 20)
            os.kill(process.pid, signal.SIGSTOP)
            await until(lambda: "a" in two.active_work and two.active_work["a"].done > 20, timeout=60)
            os.kill(process.pid, signal.SIGCONT)
            await publishing
            results = await site.results("a.out", 400)
            assert [int(result.body) for result in results] == list(range(400))
            assert (await hub.span("tw_edge_log_a~out")).messages == 400
        finally:
            os.kill(process.pid, signal.SIGCONT)
            await stop(process)

    run_at_site(scenario, timeout=240)
