"""Finding the way into a log: from the key frames before a place, silently, up to that place.

A round of key frames begins under a subject of its own, so the broker itself answers "the last one before". Where the
round was not complete by then, the one before it is tried, and so on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from thinwire.control.logs.inlet import Inlet
from thinwire.control.logs.track import Track
from thinwire.control.names import publisher_in
from thinwire.errors import PeerFault, UnknownSchema
from thinwire.transports.broker import Broker, Stored

Learn = Callable[[bytes], Awaitable[bool]]
Inlets = TypeVar("Inlets", bound=Inlet)

_log = logging.getLogger("thinwire.control")

PULSE = 1.0
SILENT = 600.0
"""seconds without a word after which a publisher is not waited for"""
ROUNDS = 8
"""rounds of key frames to go back, at most"""


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
    """Bring fresh links to the place before which they know what a reader from the beginning would.

    track: what to read, the log of a topic where only its name is given
    learn: finds the schema of a fingerprint; False where nobody knows it
    furthest: messages to read at most; where it would take more, the links are left as they are
    """
    track = Track(track) if isinstance(track, str) else track
    names = [publisher] if publisher != "*" else await _speakers(broker, track, place)
    begun = await _last_keys(broker, track, names, place)
    for _ in range(ROUNDS):
        if furthest is not None and place - begun > furthest:
            break
        await _run_up(broker, track, begun, place, inlet, learn, publisher)
        earlier = await _last_keys(broker, track, [name for name, _ in inlet.lost()], begun)
        if earlier == begun:
            break
        begun, inlet = earlier, inlet.afresh()
    return inlet


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


async def _last_keys(broker: Broker, track: Track, publishers: list[str], place: int) -> int:
    """The offset from which each of the publishers begins a round before `place`; `place` where none does."""
    found = [await broker.last(track.log, track.keys(name), up_to=place - 1) for name in publishers]
    return min((key.offset for key in found if key is not None), default=place)


async def _run_up(
    broker: Broker, track: Track, begun: int, place: int, inlet: Inlet, learn: Learn, publisher: str
) -> None:
    """Feed the links everything from `begun` up to `place`, which is not fed itself."""
    last = min(place - 1, (await broker.span(track.log)).last)
    if begun > last:
        return
    reader = await broker.read(track.log, first=begun, subjects=[track.subjects(publisher)])
    try:
        end = await _end(broker, track, publisher, last)
        offset = 0
        while offset < end:
            stored = await reader.next(PULSE)
            if stored is None:  # what is awaited may have left the log meanwhile
                end = min(end, await _end(broker, track, publisher, last))
            elif stored.offset > last:
                return
            else:
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
    try:
        inlet.receive(stored, stored.time)
    except UnknownSchema as unknown:
        if await learn(bytes.fromhex(unknown.fingerprint)):
            inlet.pass_on(stored, stored.time)
    except PeerFault as fault:
        _log.warning("%s: the message at %d cannot be read: %s", stored.subject, stored.offset, fault)
