"""Writing where topics shall be: how they are processed, on which host, and by which model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thinwire.brokers.protocol_broker import NOTHING, Broker, Bucket
from thinwire.edge.edge_documents import Assignment, EdgeTopic
from thinwire.edge.edge_documents_names import ASSIGNMENT, EDGE, model_key, topic_key
from thinwire.errors import ConfigError, Conflict

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
