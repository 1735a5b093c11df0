"""The taxi city at the edge, as an example to run: `python -m thinwire_lab.live.edge.taxi_city`.

A hub and two hosts with brokers of their own, joined as leaf nodes. Each host has the busiest regions next to it: taxis
say on the region's `gps` topic where they are, at the host's broker, and what leaves the host is the region's `update`
topic: how many taxis there are, how many are free, how fast they drive. No position and no taxi ever reaches the hub.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats.broker import connect
from thinwire.brokers.protocol import Broker
from thinwire.edge import EdgeHostDocument, EdgePublisher, EdgeTopic, apply, read_edge
from thinwire.edge.edge_host import edge_node, edge_server
from thinwire_lab.live.edge.load_harness import FUNCTIONS
from thinwire_lab.workload.samples import taxi

HOSTS = ("east", "west")
SILENCE = 5.0
"""seconds without an update after which no more are expected"""


@dataclass(frozen=True)
class City:
    """What became of a few seconds of traffic.

    positions: events that taxis published; updates: what left the hosts, by region
    leaked: taxis that are named anywhere at the hub
    """

    positions: int
    updates: dict[str, list[dict[str, Any]]]
    leaked: int


async def taxi_city(taxis: int = 60, seconds: int = 5, regions: int = 2, seed: int = 1) -> City:
    """Let taxis drive for some seconds; only the busiest regions are looked at, half of them at each host."""
    events = list(taxi.events(taxis * seconds, seed=seed, sources=taxis))
    busiest = [region for region, _ in Counter(event["region"] for event in events).most_common(regions)]
    homes = {region: HOSTS[number % len(HOSTS)] for number, region in enumerate(busiest)}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(EmbeddedServer(leaves=0))
        hub = await _connected(server.url, stack)
        near = {name: await _host(hub, name, server, stack) for name in HOSTS}
        await apply(
            hub, [_topic(*home) for home in homes.items()], {_gps(region): home for region, home in homes.items()}
        )
        mine = [event for event in events if event["region"] in homes]
        await _publish(near, homes, mine)
        updates = {region: await _updates(hub, region) for region in homes}
        return City(len(mine), updates, await _leaked(hub))


def _gps(region: str) -> str:
    return taxi.topic_names(region)[0]


def _topic(region: str, home: str) -> EdgeTopic:
    gps, update = taxi.topic_names(region)
    return EdgeTopic(gps, "taxi_regions:aggregated", 10.0, 0.001, output=update, upstream="results", host=home)


async def _connected(url: str, stack: AsyncExitStack) -> Broker:
    broker = await connect(url)
    stack.push_async_callback(broker.close)
    return broker


async def _host(hub: Broker, name: str, server: EmbeddedServer, stack: AsyncExitStack) -> Broker:
    """A host at work; a connection to its own broker, as taxis near it have one."""
    own = await stack.enter_async_context(edge_server(name, server.leaf_url))
    await stack.enter_async_context(edge_node(hub, EdgeHostDocument(name), own, path=[FUNCTIONS]))
    return await _connected(own.url, stack)


async def _publish(near: dict[str, Broker], homes: dict[str, str], events: list[Any]) -> None:
    publishers = {region: EdgePublisher(near[home], _gps(region), "taxis", near=True) for region, home in homes.items()}
    for event in events:
        identity = f"{event['taxi']}/{event['timestamp']}"
        body = json.dumps(dict(event)).encode()
        await publishers[event["region"]].publish(body, id=identity, due=time.time())


async def _updates(hub: Broker, region: str) -> list[dict[str, Any]]:
    update = taxi.topic_names(region)[1]
    return [json.loads(message.body) async for _, message in read_edge(hub, update, timeout=SILENCE)]


async def _leaked(hub: Broker) -> int:
    """Messages at the hub in whose body a taxi is named; ids are the taxis' own business and are looked at too."""
    found = 0
    for log in await hub.logs():
        reader = await hub.read(log, first=1)
        try:
            while (stored := await reader.next(timeout=0.5)) is not None:
                reader.done(stored.offset)
                found += b"taxi-" in stored.payload
        finally:
            await reader.close()
    return found


def main() -> None:
    """Drive, and print the last update of every region."""
    city = asyncio.run(taxi_city())
    print(f"{city.positions} positions at the edge; taxis named at the hub: {city.leaked}")
    for region, updates in city.updates.items():
        print(f"{region}: {len(updates)} updates, the last: {json.dumps(updates[-1]) if updates else 'none'}")


if __name__ == "__main__":
    main()
