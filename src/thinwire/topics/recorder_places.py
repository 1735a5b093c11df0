"""Where the recording of a topic begins, and whether it may go on at all."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from thinwire.brokers.protocol_broker import Broker, Span, Stored
from thinwire.errors import ConfigError
from thinwire.topics import topic_settings as keys
from thinwire.topics.log_position_track import Track
from thinwire.topics.log_seek_starting import last_keys
from thinwire.topics.names import REGISTRY, log_of, publisher_in

Start = Literal["earliest", "latest"] | int | datetime


async def beginning(broker: Broker, topic: str, start: Start, span: Span) -> int:
    """The offset to begin with: what comes from the place asked for on shall be readable."""
    if start == "earliest":
        return span.first
    if isinstance(start, datetime):
        place = await broker.offset_at(log_of(topic), start.timestamp())
    else:
        place = max(start, span.first) if isinstance(start, int) else span.last + 1
    return await last_keys(broker, Track(topic), await _speakers(broker, topic, place), place)


async def check_same(broker: Broker, topic: str, span: Span, recorded: Stored) -> None:
    """Is the log at the broker the one that was recorded, or another that was begun under its name?"""
    there = await broker.last(log_of(topic), ">", up_to=recorded.offset)
    differs = there is not None and there.offset == recorded.offset and there[:3] != recorded[:3]
    if differs or span.last < recorded.offset:
        way = "the log at the broker is not the one that was recorded, it was begun anew: choose another folder"
        raise ConfigError(way, topic=topic, recorded_up_to=recorded.offset, log_ends_at=span.last)


async def _speakers(broker: Broker, topic: str, place: int) -> set[str]:
    """The publishers that said something from `place` on, or that the registry knows to be there."""
    track, registry = Track(topic), await broker.bucket(REGISTRY)
    living = {keys.parse(entry.key).name for entry in await registry.entries(f"{keys.PUBLISHER}.{topic}.*")}
    for name in map(publisher_in, await broker.subjects(track.log, track.keys())):
        newest = await broker.last(track.log, track.subjects(name))
        if newest is not None and newest.offset >= place:
            living.add(name)
    return living
