"""The stream that the source is measured on, as messages of a log: ours, and the same events as JSON.

It is the feed of the knee: half of the events tell something new, so that half a frame an event travels. Four
publishers take turns; each gathers twenty frames in a message. Rounds of key frames come sixteen times, so that a log
can be read in parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from thinwire.codec import Demand, LinkConfig, Publisher
from thinwire.topics.names import data_subject, key_subject
from thinwire.wire import begins_round, join
from thinwire_lab.live.live_feed_feed import ROWS, SOURCES, TOLERANCE, TOPIC, Event, Feed, feed_schema

PUBLISHERS = 4
A_TURN = PUBLISHERS * SOURCES
"""events, one of each source"""
A_CYCLE = A_TURN * ROWS
"""events after which the readings begin again"""
RATE = 2_000.0
"""events a second, in the time that the events tell"""
START = 1_700_000_000_000_000
FRAMES = 20
"""of a message"""
ROUNDS = 16
"""of key frames, in the whole stream"""


class Message(NamedTuple):
    """What a publisher hands to the broker."""

    subject: str
    payload: bytes


@dataclass
class Told:
    """How much was told: events, frames and messages."""

    events: int = 0
    frames: int = 0
    messages: int = 0

    @property
    def share(self) -> float:
        """Frames an event."""
        return self.frames / self.events

    @property
    def together(self) -> int:
        """Events of a message, about."""
        return max(1, round(self.events / self.messages))


def turns(events: int) -> Iterator[list[list[Event]]]:
    """The events by publisher, a turn of all sources at a time."""
    feeds = [Feed(number, PUBLISHERS, RATE, START) for number in range(PUBLISHERS)]
    for turn in range(events // A_TURN):
        yield [feed.due(START + (turn + 1) * feed.period - 1) for feed in feeds]


def every(events: int) -> Iterator[Event]:
    """The events one by one."""
    for turn in turns(events):
        for some in turn:
            yield from some


def thin(events: int, told: Told) -> Iterator[Message]:
    """The messages of our publishers; `told` counts along."""
    seconds = events / RATE
    config = LinkConfig(demand=Demand(default_tolerance=TOLERANCE), key_frame_interval=seconds / ROUNDS)
    out = [_Out(f"p{number}", config) for number in range(PUBLISHERS)]
    for turn in turns(events):
        for one, some in zip(out, turn, strict=True):
            told.events += len(some)
            for event in some:
                yield from one.publish(event)
    for one in out:
        yield from one.end(START / 1e6 + seconds)
    told.frames = sum(one.frames for one in out)
    told.messages = sum(one.messages for one in out)


def as_json(events: int, topic: str, together: int) -> Iterator[Message]:
    """The same events as lines of JSON, so many in a message."""
    waiting: list[list[str]] = [[] for _ in range(PUBLISHERS)]
    for turn in turns(events):
        for number, some in enumerate(turn):
            waiting[number] += [json.dumps(event, separators=(",", ":")) for event in some]
            while len(waiting[number]) >= together:
                yield _lines(topic, number, waiting[number][:together])
                del waiting[number][:together]
    for number, lines in enumerate(waiting):
        if lines:
            yield _lines(topic, number, lines)


def _lines(topic: str, publisher: int, lines: list[str]) -> Message:
    return Message(data_subject(topic, f"p{publisher}"), "\n".join(lines).encode())


@dataclass
class _Out:
    """A publisher, and the frames that wait for others."""

    name: str
    config: LinkConfig
    frames: int = 0
    messages: int = 0
    waiting: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.publisher = Publisher(feed_schema(), self.config, name=self.name, now=START / 1e6)

    def publish(self, event: Event) -> Iterator[Message]:
        now = event["time"] / 1e6
        started = [] if self.frames else self.publisher.start(now)
        yield from self._take(started + self.publisher.publish(event, now))

    def end(self, now: float) -> Iterator[Message]:
        """Tell of the events that were passed over in silence, and let everything go."""
        yield from self._take(self.publisher.heartbeat(now))
        yield from self._send()

    def _take(self, frames: list[bytes]) -> Iterator[Message]:
        self.frames += len(frames)
        for frame in frames:
            if begins_round(frame):
                yield from self._send()
                self.messages += 1
                yield Message(key_subject(TOPIC, self.name), frame)
            else:
                self.waiting.append(frame)
                if len(self.waiting) == FRAMES:
                    yield from self._send()

    def _send(self) -> Iterator[Message]:
        if self.waiting:
            self.messages += 1
            yield Message(data_subject(TOPIC, self.name), join(self.waiting))
            self.waiting = []
