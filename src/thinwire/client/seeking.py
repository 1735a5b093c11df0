"""Finding the way into a log: from the key frames before a place, silently, up to that place.

A round of key frames begins under a subject of its own, so the broker itself answers "the last one before". Where the
round was not complete by then, the one before it is tried, and so on.
"""

from __future__ import annotations

from thinwire.client.inlet import Inlet
from thinwire.control.names import key_subject, log_of, publisher_in, publisher_subjects
from thinwire.errors import UnknownSchema
from thinwire.transports.broker import Broker, Stored

ROUNDS = 8
"""rounds of key frames to go back, at most"""


async def rewind(broker: Broker, topic: str, place: int, inlet: Inlet, publisher: str = "*") -> Inlet:
    """Bring fresh links to the place before which they know what a reader from the beginning would."""
    names = [publisher] if publisher != "*" else await publishers_of(broker, topic)
    begun = await _last_keys(broker, topic, names, place)
    for _ in range(ROUNDS):
        await _run_up(broker, topic, begun, place, inlet, publisher)
        earlier = await _last_keys(broker, topic, [name for name, _ in inlet.lost()], begun)
        if earlier == begun:
            break
        begun, inlet = earlier, inlet.afresh()
    return inlet


async def publishers_of(broker: Broker, topic: str) -> list[str]:
    """The publishers that have begun a round of key frames in the log."""
    return [publisher_in(subject) for subject in await broker.subjects(log_of(topic), key_subject(topic, "*"))]


async def _last_keys(broker: Broker, topic: str, publishers: list[str], place: int) -> int:
    """The offset from which each of the publishers begins a round before `place`; `place` where none does."""
    found = [await broker.last(log_of(topic), key_subject(topic, name), up_to=place - 1) for name in publishers]
    return min((key.offset for key in found if key is not None), default=place)


async def _run_up(broker: Broker, topic: str, begun: int, place: int, inlet: Inlet, publisher: str) -> None:
    """Feed the links everything from `begun` up to `place`, which is not fed itself."""
    last = min(place - 1, (await broker.span(log_of(topic))).last)
    if begun > last:
        return
    reader = await broker.read(log_of(topic), first=begun, subjects=[publisher_subjects(topic, publisher)])
    try:
        end = await _end(broker, topic, publisher, last)
        while end and (stored := await reader.next()) is not None:
            _feed(inlet, stored)
            reader.done(stored.offset)
            if stored.offset >= end:
                return
    finally:
        await reader.close()


async def _end(broker: Broker, topic: str, publisher: str, last: int) -> int:
    """The offset of the last message of these publishers at or before `last`, 0 for none."""
    found = await broker.last(log_of(topic), publisher_subjects(topic, publisher), up_to=last)
    return found.offset if found is not None else 0


def _feed(inlet: Inlet, stored: Stored) -> None:
    try:
        inlet.receive(stored, stored.time)
    except UnknownSchema:
        inlet.link(publisher_in(stored.subject)).lose("unknown schema")
