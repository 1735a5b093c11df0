"""Topics divided into parts that keep their latency limits."""

from __future__ import annotations

from collections.abc import Sequence

from thinwire.placement import Host, LatencyModel, TopicLoad, split


def parts_of(topic: TopicLoad, parts: int) -> list[TopicLoad]:
    """Return the parts of a topic with their names."""
    part = topic.part(parts)
    return [TopicLoad(f"{topic.name}/{n + 1}", part.rate, part.interval, part.promise) for n in range(parts)]


def all_split(topics: Sequence[TopicLoad], hosts: Sequence[Host], model: LatencyModel) -> list[TopicLoad]:
    """Split every topic that needs it; topics that no split helps stay unchanged."""
    known: dict[tuple[float, float, float], int] = {}
    found: list[TopicLoad] = []
    for topic in topics:
        key = (topic.rate, topic.interval, topic.promise)
        if key not in known:
            known[key] = split(topic, hosts, model).parts or 1
        found += parts_of(topic, known[key]) if known[key] > 1 else [topic]
    return found
