"""Writing where topics shall be: how they are processed, on which host, and by which model.

From topics and the hosts that are there to an assignment: as few hosts as promises allow, few moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from thinwire.brokers.protocol import NOTHING, Broker, Bucket
from thinwire.edge.edge_documents import (
    ASSIGNMENT,
    EDGE,
    EDGE_LEASES,
    Assignment,
    EdgeHostDocument,
    EdgeTopic,
    host_in,
    host_key,
    model_key,
    topic_key,
)
from thinwire.edge.move_decision import Decider, EdgeView
from thinwire.errors import ConfigError, Conflict, NotEnoughHosts
from thinwire.placement import PlacementPlan, Rising, propose
from thinwire.topics.leases import member_key

TRIES = 8
MAX_MODEL = 256 << 10
"""bytes of a model: every host reads those of all topics"""


async def apply(broker: Broker, topics: Sequence[EdgeTopic], hosts: Mapping[str, str]) -> Assignment:
    """Make topics known and assign them; topics that are not named stay where they are."""
    for topic in topics:
        if topic.topic not in hosts:
            raise ConfigError("a topic without a host", field="hosts", topic=topic.topic)
        if topic.host and hosts[topic.topic] != topic.host:
            raise ConfigError("this topic is for one host alone", topic=topic.topic, host=topic.host)
    bucket = await broker.bucket(EDGE)
    for topic in topics:
        await bucket.put(topic_key(topic.topic), topic.encode())
    return await change(bucket, hosts)


async def change(bucket: Bucket, hosts: Mapping[str, str]) -> Assignment:
    """Assign topics, whoever else changes the assignment at the same time."""
    for _ in range(TRIES):
        entry = await bucket.get(ASSIGNMENT)
        stored = entry is not None and entry.value is not None
        before = Assignment.decode(entry.value) if entry is not None and entry.value is not None else Assignment()
        after = Assignment({**before.hosts, **hosts}, before.version + 1, before.epoch)
        try:
            await bucket.put(ASSIGNMENT, after.encode(), revision=entry.revision if stored and entry else NOTHING)
            return after
        except Conflict:
            continue
    raise Conflict("the assignment changes again and again: try later", key=ASSIGNMENT)


async def teach(broker: Broker, topic: str, model: bytes) -> None:
    """Give the function of a topic the model that it goes by from its next message on, wherever the topic is."""
    if not 0 < len(model) <= MAX_MODEL:
        raise ConfigError("a model of limited size", field="model", bytes=len(model), limit=f"1 to {MAX_MODEL}")
    bucket = await broker.bucket(EDGE)
    entry = await bucket.get(topic_key(topic))
    if entry is None or entry.value is None:
        raise ConfigError("no such topic at the edge: apply it first", field="topic", value=topic)
    await bucket.put(model_key(topic), model)


async def withdraw(broker: Broker, topic: str) -> None:
    """Process a topic no more; its log stays."""
    await (await broker.bucket(EDGE)).delete(topic_key(topic))


Where = dict[str, str]


async def present(broker: Broker, wait: float) -> dict[str, EdgeHostDocument]:
    """The hosts that are there: those that say so again within so many seconds."""
    leases, edge = await broker.bucket(EDGE_LEASES), await broker.bucket(EDGE)
    before = {entry.key: entry.revision for entry in await leases.entries(member_key("host", "*"))}
    await asyncio.sleep(wait)
    now = {
        entry.key for entry in await leases.entries(member_key("host", "*")) if before.get(entry.key) != entry.revision
    }
    found = {}
    for entry in await edge.entries(host_key("*")):
        name = host_in(entry.key)
        if name is not None and member_key("host", name) in now and entry.value is not None:
            found[name] = EdgeHostDocument.decode(entry.value)
    return found


async def current(broker: Broker) -> Assignment:
    """Where topics are now."""
    entry = await (await broker.bucket(EDGE)).get(ASSIGNMENT)
    return Assignment() if entry is None or entry.value is None else Assignment.decode(entry.value)


def proposed(
    topics: Sequence[EdgeTopic], hosts: Mapping[str, EdgeHostDocument], before: Mapping[str, str], model: Rising, k: int
) -> tuple[Where, PlacementPlan | None]:
    """The host of every topic, and the plan behind it.

    Topics for one host alone are given to it, and the others around them, one by one; there is no plan then. Where all
    hosts are alike, they are taken by what they have already.
    """
    if not hosts:
        raise NotEnoughHosts("no host is there: start some with `thinwire edge`", hosts=0)
    for topic in topics:
        if topic.host and topic.host not in hosts:
            raise ConfigError("the host that this topic is for is not there", topic=topic.topic, host=topic.host)
    if any(topic.host for topic in topics):
        return _around(topics, hosts, model, k), None
    kinds = [hosts[name].placed for name in sorted(hosts)]
    if len({replace(kind, name="") for kind in kinds}) > 1:
        plan = propose([topic.placed for topic in topics], kinds, model, k)
        return {topic: seat.host for seat in plan.seats for topic in seat.topics}, plan
    kind = replace(kinds[0], name="host", count=len(kinds))
    plan = propose([topic.placed for topic in topics], [kind], model, k)
    return _named([seat.topics for seat in plan.seats], sorted(hosts), before), plan


def _around(topics: Sequence[EdgeTopic], hosts: Mapping[str, EdgeHostDocument], model: Rising, k: int) -> Where:
    at = {topic.topic: topic.host for topic in topics if topic.host}
    kinds = {name: host.placed for name, host in hosts.items()}
    view = EdgeView({topic.topic: topic.placed for topic in topics}, kinds, at, frozenset(at))
    return {**at, **Decider(model, k).moves(view, ())}


def _named(seats: Sequence[Sequence[str]], names: Sequence[str], before: Mapping[str, str]) -> Where:
    """Seats on hosts that are all alike: each takes the host that has most of its topics already."""
    found: Where = {}
    free, left = list(names), list(seats)
    while left:
        shared = {(s, h): sum(before.get(t) == h for t in left[s]) for s in range(len(left)) for h in free}
        seat, host = max(shared, key=lambda pair: (shared[pair], -pair[0]))
        found.update(dict.fromkeys(left.pop(seat), host))
        free.remove(host)
    return found
