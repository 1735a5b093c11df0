"""Encoding of many events of a decoder, with the same frames as publishing them one at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from thinwire.codec.stream_encoder import StreamEncoder
from thinwire.schema import Event

if TYPE_CHECKING:
    from thinwire.codec.compiled_encoder import CompiledEncoder


class Frames(NamedTuple):
    """Frames with the index of their event; `data` is true if all of them are compact data frames."""

    numbers: list[int]
    frames: list[bytes]
    data: bool


EncodedEvents = Generator[Frames, None, int]
"""yields frames; returns the number of events encoded"""


def encode_decoded_events(encoder: StreamEncoder, events: Sequence[Event], now: float) -> EncodedEvents:
    """Encode events with a validated encoder at one time. Indexes of events start at 0.

    Raises EventRejected; `encoder.counts.events` counts the events encoded before it.
    """
    compiled, at = encoder.frame_encoder.compiled, 0
    while at < len(events):
        count = 0
        if compiled is not None and not encoder.is_due(now):
            count = yield from _encode_regular(encoder, compiled, events, at, now)
        if not count:
            count = yield from _publish_one(encoder, events, at, now)
        at += count
    return at


def _encode_regular(
    encoder: StreamEncoder, compiled: CompiledEncoder, events: Sequence[Event], at: int, now: float
) -> EncodedEvents:
    """Encode the next events with the kernel, up to one that cannot be packed."""
    packed, done = compiled.pack(events, at), 0
    while done < packed:
        end, found = compiled.encode_packed(done, packed)
        encoder.counts.events += end - done
        if found:
            numbers, frames = [at + number for number, _ in found], [frame for _, frame in found]
            encoder.counts.add_all_data(frames)
            yield Frames(numbers, frames, data=True)
        yield from _frames_of(at + end - 1, encoder.frame_encoder.switches())
        if end == done:
            end += yield from _publish_one(encoder, events, at + done, now)
        done = end
    return done


def _publish_one(encoder: StreamEncoder, events: Sequence[Event], at: int, now: float) -> EncodedEvents:
    yield from _frames_of(at, encoder.publish(events[at], now))
    return 1


def _frames_of(number: int, frames: list[bytes]) -> Iterator[Frames]:
    if frames:
        yield Frames([number] * len(frames), frames, data=False)
