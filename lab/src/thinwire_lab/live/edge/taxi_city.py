"""Example of edge processing: `python -m thinwire_lab.live.edge.taxi_city`.

There are a hub and two edge hosts with their own brokers, connected as leaf nodes. Each host serves the busiest regions
near it: taxis publish their positions to the `gps` topic of a region at the host's broker, and the host publishes the
`update` topic of the region: the number of taxis, how many are free, and their speed. No position and no taxi reaches
the hub.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.protocol import Broker
from thinwire.edge import EdgeHostDocument, EdgePublisher, EdgeTopic, apply, read_edge
from thinwire.edge.edge_host import edge_node, edge_server
from thinwire_lab.live.edge.load_harness import FUNCTIONS
from thinwire_lab.workload.samples import taxi

HOSTS = ("east", "west")
END_OF_UPDATES = 5.0
"""seconds without an update after which none is expected"""


@dataclass(frozen=True)
class City:
    """Result of some seconds of traffic.

    positions: events that taxis published; updates: events that the hosts published, by region
    leaked: messages at the hub that name a taxi
    """

    positions: int
    updates: dict[str, list[dict[str, Any]]]
    leaked: int


async def taxi_city(taxis: int = 60, seconds: int = 5, regions: int = 2, seed: int = 1) -> City:
    """Simulate taxis for some seconds. Only the busiest regions are served, half of them by each host."""
    events = list(taxi.events(taxis * seconds, seed=seed, sources=taxis))
    busiest = [region for region, _ in Counter(event["region"] for event in events).most_common(regions)]
    homes = {region: HOSTS[number % len(HOSTS)] for number, region in enumerate(busiest)}
    async with AsyncExitStack() as resources:
        server = await resources.enter_async_context(EmbeddedServer(leaves=0))
        hub, _ = await open_broker(read_url(server.url), {}, resources)
        near = {name: await _start_host(hub, name, server, resources) for name in HOSTS}
        await apply(
            hub, [_topic(*home) for home in homes.items()], {_gps(region): home for region, home in homes.items()}
        )
        served = [event for event in events if event["region"] in homes]
        await _publish(near, homes, served)
        updates = {region: await _read_updates(hub, region) for region in homes}
        return City(len(served), updates, await _count_leaked(hub))


def _gps(region: str) -> str:
    return taxi.topic_names(region)[0]


def _topic(region: str, home: str) -> EdgeTopic:
    gps, update = taxi.topic_names(region)
    return EdgeTopic(gps, "taxi_regions:aggregated", 10.0, 0.001, output=update, upstream="results", host=home)


async def _start_host(hub: Broker, name: str, server: EmbeddedServer, resources: AsyncExitStack) -> Broker:
    """Start a host. Return a connection to its own broker, as taxis have."""
    own = await resources.enter_async_context(edge_server(name, server.leaf_url))
    await resources.enter_async_context(edge_node(hub, EdgeHostDocument(name), own, path=[FUNCTIONS]))
    broker, _ = await open_broker(read_url(own.url), {}, resources)
    return broker


async def _publish(near: dict[str, Broker], homes: dict[str, str], events: list[Any]) -> None:
    publishers = {region: EdgePublisher(near[home], _gps(region), "taxis", near=True) for region, home in homes.items()}
    for event in events:
        identity = f"{event['taxi']}/{event['timestamp']}"
        body = json.dumps(dict(event)).encode()
        await publishers[event["region"]].publish(body, id=identity, due=time.time())


async def _read_updates(hub: Broker, region: str) -> list[dict[str, Any]]:
    update = taxi.topic_names(region)[1]
    return [json.loads(message.body) async for _, message in read_edge(hub, update, timeout=END_OF_UPDATES)]


async def _count_leaked(hub: Broker) -> int:
    """Return the number of messages at the hub that name a taxi, in the body or the id."""
    leaked = 0
    for log in await hub.logs():
        reader = await hub.read(log, first=1)
        try:
            while (stored := await reader.next(timeout=0.5)) is not None:
                reader.done(stored.offset)
                leaked += b"taxi-" in stored.payload
        finally:
            await reader.close()
    return leaked


def main() -> None:
    """Run the example and print the last update of every region."""
    city = asyncio.run(taxi_city())
    print(f"{city.positions} positions at the edge; taxis named at the hub: {city.leaked}")
    for region, updates in city.updates.items():
        print(f"{region}: {len(updates)} updates, the last: {json.dumps(updates[-1]) if updates else 'none'}")


if __name__ == "__main__":
    main()
