"""Many events of a decoder at once: the frames that publishing them one by one would have given, bit for bit.

Ordinary events run through the compiled kernel together; what is not ordinary, or due, takes its turn in between.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from thinwire.codec.stream_encoder import StreamEncoder
from thinwire.schema import Event

if TYPE_CHECKING:
    from thinwire.codec.compiled_encoder import FastEncoder


class Frames(NamedTuple):
    """Frames one after the other, each with the number of its event; data: are all of them compact data frames?"""

    numbers: list[int]
    frames: list[bytes]
    data: bool


Taken = Generator[Frames, None, int]
"""frames, and how many events were taken in the end"""


def encode_decoded_events(publisher: StreamEncoder, events: Sequence[Event], now: float) -> Taken:
    """The frames of events that a trusting publisher tells at one time, with the numbers of the events from 0 on.

    Raises EventRejected, and `publisher.counts.events` says how many were told before; nothing else has changed then.
    """
    fast, at = publisher.encoder.fast, 0
    while at < len(events):
        taken = 0
        if fast is not None and not publisher.is_due(now):
            taken = yield from _ordinary(publisher, fast, events, at, now)
        if not taken:
            taken = yield from _singly(publisher, events, at, now)
        at += taken
    return at


def _ordinary(publisher: StreamEncoder, fast: FastEncoder, events: Sequence[Event], at: int, now: float) -> Taken:
    """The next events, up to one that cannot be packed."""
    packed, done = fast.pack(events, at), 0
    while done < packed:
        end, found = fast.encode_packed(done, packed)
        publisher.counts.events += end - done
        if found:
            numbers, frames = [at + number for number, _ in found], [frame for _, frame in found]
            publisher.counts.add_all_data(frames)
            yield Frames(numbers, frames, data=True)
        if publisher.encoder.reducer.trials is not None:
            yield from _of(at + end - 1, publisher.encoder.switches())
        if end == done:
            end += yield from _singly(publisher, events, at + done, now)
        done = end
    return done


def _singly(publisher: StreamEncoder, events: Sequence[Event], at: int, now: float) -> Taken:
    yield from _of(at, publisher.publish(events[at], now))
    return 1


def _of(number: int, frames: list[bytes]) -> Iterator[Frames]:
    if frames:
        yield Frames([number] * len(frames), frames, data=False)
