"""Storing the assignment of topics to hosts, and proposing one: few hosts, few moves, all latency limits kept."""

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
    edge_key,
)
from thinwire.edge.move_decision import EdgeView, MoveDecider
from thinwire.errors import ConfigError, Conflict, NotEnoughHosts
from thinwire.placement import MonotoneModel, PlacementPlan, propose
from thinwire.topics.leases import heartbeat_key

MAX_ATTEMPTS = 8
MAX_MODEL = 256 << 10
"""bytes of a model; every host reads the models of all topics"""

HostOfTopic = dict[str, str]


async def apply(broker: Broker, topics: Sequence[EdgeTopic], hosts: Mapping[str, str]) -> Assignment:
    """Store topics and assign them to hosts. Other topics keep their hosts."""
    for topic in topics:
        if topic.topic not in hosts:
            raise ConfigError("a topic without a host", field="hosts", topic=topic.topic)
        if topic.host and hosts[topic.topic] != topic.host:
            raise ConfigError("the topic is pinned to another host", topic=topic.topic, host=topic.host)
    bucket = await broker.bucket(EDGE)
    for topic in topics:
        await bucket.put(edge_key("topic", topic.topic), topic.encode())
    return await change_assignment(bucket, hosts)


async def change_assignment(bucket: Bucket, hosts: Mapping[str, str]) -> Assignment:
    """Assign topics to hosts; repeated if the assignment is changed concurrently."""
    for _ in range(MAX_ATTEMPTS):
        entry = await bucket.get(ASSIGNMENT)
        revision, before = NOTHING, Assignment()
        if entry is not None and entry.value is not None:
            revision, before = entry.revision, Assignment.decode(entry.value)
        after = Assignment({**before.hosts, **hosts}, before.version + 1, before.epoch)
        try:
            await bucket.put(ASSIGNMENT, after.encode(), revision=revision)
            return after
        except Conflict:
            continue
    raise Conflict("too many concurrent changes of the assignment; try again", key=ASSIGNMENT)


async def store_model(broker: Broker, topic: str, model: bytes) -> None:
    """Store the model of a topic's function, which uses it from its next message on."""
    if not 0 < len(model) <= MAX_MODEL:
        raise ConfigError("model is empty or too large", field="model", bytes=len(model), limit=f"1 to {MAX_MODEL}")
    bucket = await broker.bucket(EDGE)
    entry = await bucket.get(edge_key("topic", topic))
    if entry is None or entry.value is None:
        raise ConfigError("no such edge topic: apply it first", field="topic", value=topic)
    await bucket.put(edge_key("model", topic), model)


async def withdraw(broker: Broker, topic: str) -> None:
    """Stop processing a topic. Its log is kept."""
    await (await broker.bucket(EDGE)).delete(edge_key("topic", topic))


async def find_running_hosts(broker: Broker, wait: float) -> dict[str, EdgeHostDocument]:
    """Return the hosts that renew their membership within `wait` seconds."""
    leases, edge = await broker.bucket(EDGE_LEASES), await broker.bucket(EDGE)
    before = {entry.key: entry.revision for entry in await leases.entries(heartbeat_key("host", "*"))}
    await asyncio.sleep(wait)
    after = await leases.entries(heartbeat_key("host", "*"))
    renewed = {entry.key for entry in after if before.get(entry.key) != entry.revision}
    found = {}
    for entry in await edge.entries(edge_key("host", "*")):
        name = entry.key.removeprefix(edge_key("host", ""))
        if heartbeat_key("host", name) in renewed and entry.value is not None:
            found[name] = EdgeHostDocument.decode(entry.value)
    return found


async def read_assignment(broker: Broker) -> Assignment:
    entry = await (await broker.bucket(EDGE)).get(ASSIGNMENT)
    return Assignment() if entry is None or entry.value is None else Assignment.decode(entry.value)


def propose_hosts(
    topics: Sequence[EdgeTopic],
    hosts: Mapping[str, EdgeHostDocument],
    before: Mapping[str, str],
    model: MonotoneModel,
    k: int,
) -> tuple[HostOfTopic, PlacementPlan | None]:
    """Return the host of every topic, and the plan it results from.

    With pinned topics, the others are placed around them one by one and there is no plan. On equal hosts, topics stay
    where they are as far as the plan allows.
    """
    if not hosts:
        raise NotEnoughHosts("no host is running: start one with `thinwire edge`", hosts=0)
    for topic in topics:
        if topic.host and topic.host not in hosts:
            raise ConfigError("the host that the topic is pinned to is not running", topic=topic.topic, host=topic.host)
    if any(topic.host for topic in topics):
        return _place_around_pinned(topics, hosts, model, k), None
    kinds = [hosts[name].placed for name in sorted(hosts)]
    if len({replace(kind, name="") for kind in kinds}) > 1:
        plan = propose([topic.placed for topic in topics], kinds, model, k)
        return {topic: assigned.host for assigned in plan.assignments for topic in assigned.topics}, plan
    kind = replace(kinds[0], name="host", count=len(kinds))
    plan = propose([topic.placed for topic in topics], [kind], model, k)
    return _assign_names([assigned.topics for assigned in plan.assignments], sorted(hosts), before), plan


def _place_around_pinned(
    topics: Sequence[EdgeTopic], hosts: Mapping[str, EdgeHostDocument], model: MonotoneModel, k: int
) -> HostOfTopic:
    at = {topic.topic: topic.host for topic in topics if topic.host}
    kinds = {name: host.placed for name, host in hosts.items()}
    view = EdgeView({topic.topic: topic.placed for topic in topics}, kinds, at, frozenset(at))
    return {**at, **MoveDecider(model, k, view).find_moves(())}


def _assign_names(groups: Sequence[Sequence[str]], names: Sequence[str], before: Mapping[str, str]) -> HostOfTopic:
    """Assign groups of topics to equal hosts: each to the host that already has most of its topics."""
    assigned: HostOfTopic = {}
    free, remaining = list(names), list(groups)
    while remaining:
        shared = {(g, h): sum(before.get(t) == h for t in remaining[g]) for g in range(len(remaining)) for h in free}
        group, host = max(shared, key=lambda pair: (shared[pair], -pair[0]))
        assigned.update(dict.fromkeys(remaining.pop(group), host))
        free.remove(host)
    return assigned
