"""Finding the way into a log: from what is known before a place, silently, up to that place.

A round of key frames begins under a subject of its own, so the broker itself answers "the last one before". Where a
checkpoint is nearer, it is taken up instead. Where either does not tell of everybody, because a round was not complete
by then or a checkpoint is damaged, the one before it is tried, and so on.
"""

from __future__ import annotations

import logging
from typing import Generic, NamedTuple, TypeVar

from thinwire.brokers.protocol_broker import Broker, Stored
from thinwire.codec import State
from thinwire.errors import CorruptCheckpoint, PeerFault, UnknownSchema
from thinwire.topics.log_decoder_inlet import Inlet
from thinwire.topics.log_decoder_learning import Learn, read_on
from thinwire.topics.log_position_track import Track
from thinwire.topics.log_seek import Taken, take_up
from thinwire.topics.log_seek_starting import Start, Starts
from thinwire.topics.names import publisher_in

Inlets = TypeVar("Inlets", bound=Inlet)

_log = logging.getLogger("thinwire.services")

PULSE = 1.0
SILENT = 600.0
"""seconds without a word after which a publisher is not waited for"""
ROUNDS = 8
"""places to begin at that are tried, at most"""


class Sought(NamedTuple, Generic[Inlets]):
    """Links that were brought to a place; `how` says from where, in words."""

    inlet: Inlets
    how: str


async def rewind(
    broker: Broker,
    track: Track | str,
    place: int,
    inlet: Inlets,
    *,
    learn: Learn,
    publisher: str = "*",
    furthest: int | None = None,
) -> Inlets:
    """Links as `seek` brings them to a place."""
    sought = await seek(broker, track, place, inlet, learn=learn, publisher=publisher, furthest=furthest)
    _log.info("%s: a reader at %d begins %s", track, place, sought.how)
    return sought.inlet


async def seek(
    broker: Broker,
    track: Track | str,
    place: int,
    inlet: Inlets,
    *,
    learn: Learn,
    publisher: str = "*",
    furthest: int | None = None,
) -> Sought[Inlets]:
    """Bring fresh links to the place before which they know what a reader from the beginning would.

    track: what to read, the log of a topic where only its name is given
    learn: finds the schema of a fingerprint, the dictionary of a hash; False where nobody knows it
    furthest: messages to read at most; where it would take more, the links know nothing
    """
    track = Track(track) if isinstance(track, str) else track
    names = {publisher} if publisher != "*" else set(await _speakers(broker, track, place))
    starts, unknown = Starts(broker, track, place), names
    found = Sought(inlet, "with nothing")
    for _ in range(ROUNDS):
        start = await starts.next(unknown) if unknown else None
        if start is None or (furthest is not None and place - start.first > furthest):
            break
        fresh = inlet.afresh()
        taken = await _begin(broker, track, start, fresh, place, learn, publisher)
        if taken is None:
            continue
        await _run_up(broker, track, taken, place, fresh, learn, publisher)
        found = Sought(fresh, _in_words(start, place - taken.first))
        ready = {name for name, link in fresh.links.items() if link.state is State.READY}
        unknown = (names | fresh.links.keys()) - ready
    return found


async def _begin(
    broker: Broker, track: Track, start: Start, inlet: Inlet, place: int, learn: Learn, publisher: str
) -> Taken | None:
    """What there is to read from a start on; None where it is a checkpoint that is of no use."""
    if start.checkpoint is None:
        return Taken(start.first)
    try:
        return await take_up(broker, track, start.checkpoint, inlet, place, learn, publisher)
    except (CorruptCheckpoint, UnknownSchema) as problem:
        _log.warning("%s: the checkpoint at %d is left aside: %s", track.topic, start.checkpoint.offset, problem)
        return None


def _in_words(start: Start, messages: int) -> str:
    what = f"the checkpoint at {start.checkpoint.offset}" if start.checkpoint is not None else "key frames"
    return f"from {what}, {messages} messages before"


async def _speakers(broker: Broker, track: Track, place: int) -> list[str]:
    """The publishers that said something from `place` on, or shortly before the end: others begin anew if ever."""
    names = [publisher_in(subject) for subject in await broker.subjects(track.log, track.keys())]
    newest = {name: await broker.last(track.log, track.subjects(name)) for name in names}
    end = max((stored.time for stored in newest.values() if stored is not None), default=0.0)
    return [
        name
        for name, stored in newest.items()
        if stored is not None and (stored.offset >= place or stored.time >= end - SILENT)
    ]


async def _run_up(
    broker: Broker, track: Track, taken: Taken, place: int, inlet: Inlet, learn: Learn, publisher: str
) -> None:
    """Feed the links everything that is left up to `place`, which is not fed itself."""
    last = min(place - 1, (await broker.span(track.log)).last)
    end, offset = await _end(broker, track, publisher, last), taken.first - 1
    if end <= offset:
        return
    reader = await broker.read(track.log, first=taken.first, subjects=[track.subjects(publisher)])
    try:
        while offset < end:
            stored = await reader.next(PULSE)
            if stored is None:  # what is awaited may have left the log meanwhile
                end = min(end, await _end(broker, track, publisher, last))
            elif stored.offset > last:
                return
            else:
                if stored.offset > taken.known.get(publisher_in(stored.subject), 0):
                    await _feed(inlet, stored, learn)
                offset = stored.offset
                reader.done(offset)
    finally:
        await reader.close()


async def _end(broker: Broker, track: Track, publisher: str, last: int) -> int:
    """The offset of the last message of these publishers at or before `last`, 0 for none."""
    found = await broker.last(track.log, track.subjects(publisher), up_to=last)
    return found.offset if found is not None else 0


async def _feed(inlet: Inlet, stored: Stored, learn: Learn) -> None:
    """One message; a link that cannot read it is lost, and says so when it next has something to say."""

    def complain(fault: PeerFault) -> None:
        _log.warning("%s: the message at %d cannot be read: %s", stored.subject, stored.offset, fault)

    try:
        inlet.receive(stored, stored.time)
    except PeerFault as fault:
        link = inlet.link(publisher_in(stored.subject))
        await read_on(link, fault, lambda: inlet.pass_on(stored, stored.time), learn, complain)
