"""The same events as JSON: a message an event, and batched with the same linger, plain and deflated.

Numbers are written as short as JSON allows, and no blank is left in: what a careful team would send without us.

What a team would do without us, in the standard library's own best way. Benches run it in the same run as ours.

>>> packed = packed_json({"room": "11.1", "t": 20.5})
>>> unpacked_json(packed)
{'room': '11.1', 't': 20.5}
>>> len(deflate(compact_json({"room": "11.1", "t": 20.5}))) <= len(packed)
True
"""

from __future__ import annotations

import json
import zlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from thinwire.analysis.event_columns import events_of
from thinwire.analysis.event_times import EventClock
from thinwire.analysis.message_batches import ROUND_TRIP, BatchedMessage, Joiner
from thinwire.analysis.socket_bytes import Sockets
from thinwire.schema import Schema

RAW_DEFLATE = -15
"""no zlib header and no checksum: six bytes a message less than `zlib.compress` writes by default"""
LEVEL = 6

_COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def compact_json(event: Mapping[str, Any]) -> bytes:
    """The smallest plain JSON of an event; for sizes."""
    return _COMPACT.encode(event).encode()


def deflate(text: bytes) -> bytes:
    """One message compressed by itself."""
    return zlib.compress(text, LEVEL, wbits=RAW_DEFLATE)


def packed_json(event: Mapping[str, Any]) -> bytes:
    """An event compressed as most programs would; for time. `json.dumps` without options is its fastest form."""
    return zlib.compress(json.dumps(event).encode(), LEVEL, wbits=RAW_DEFLATE)


def unpacked_json(message: bytes) -> Any:
    """The way back."""
    return json.loads(zlib.decompress(message, wbits=RAW_DEFLATE))


MAX_BATCH = 65_536


@dataclass(frozen=True)
class Baseline:
    """JSON on a stretch of a topic; `linger` is None where every event is a message of its own.

    raw: bytes of the events; message: of the payloads; link: on both sockets; deflated: the two for packed payloads
    """

    topic: str
    linger: float | None
    begin: float
    events: int = 0
    raw: int = 0
    message: int = 0
    link: int = 0
    messages: int = 0
    deflated_message: int = 0
    deflated_link: int = 0

    def joined(self, other: Baseline) -> Baseline:
        """This stretch and another one of the same stream."""
        sums = ("events", "raw", "message", "link", "messages", "deflated_message", "deflated_link")
        added = {name: getattr(self, name) + getattr(other, name) for name in sums}
        return Baseline(self.topic, self.linger, min(self.begin, other.begin), **added)


def weigh(
    batches: Iterable[pa.RecordBatch],
    schema: Schema,
    lingers: Sequence[float],
    *,
    rate: float | None = None,
    clock: EventClock | None = None,
    round_trip: float = ROUND_TRIP,
) -> list[Baseline]:
    """The JSON of a stretch: a message an event first, then batched for each linger.

    clock: tells the times of a stretch that begins in the middle of its stream
    """
    clock = clock or EventClock(schema, rate)
    scales = [_Scale(schema.name, linger, round_trip) for linger in (None, *lingers)]
    for batch in batches:
        times = clock.read(batch).tolist()
        lines = [_ENCODER.encode(_shortened(event)).encode() for event in events_of(batch, schema)]
        for scale in scales:
            scale.put(times, lines)
    return [scale.total() for scale in scales]


def merge_baselines(baselines: Iterable[Baseline]) -> list[Baseline]:
    """One for each topic and linger."""
    groups: dict[tuple[str, float | None], Baseline] = {}
    for one in baselines:
        key = (one.topic, one.linger)
        groups[key] = groups[key].joined(one) if key in groups else one
    return list(groups.values())


class _Scale:
    """Weighs lines as messages."""

    def __init__(self, topic: str, linger: float | None, round_trip: float) -> None:
        self.topic = topic
        self.linger = linger
        self._joiner = Joiner(linger or 0.0, MAX_BATCH, round_trip=round_trip, each=1)
        self._plain, self._packed = Sockets.of_json(topic), Sockets.of_json(topic)
        self._waiting: deque[bytes] = deque()
        self._last: float | None = None
        self._sums = dict.fromkeys(("events", "raw", "message", "link", "deflated_message", "deflated_link"), 0)
        self._begin: float | None = None

    def put(self, times: list[float], lines: list[bytes]) -> None:
        """Take events in their order."""
        if not lines:
            return
        self._begin = times[0] if self._begin is None else self._begin
        self._sums["events"] += len(lines)
        self._sums["raw"] += sum(map(len, lines))
        self._waiting.extend(lines)
        if self.linger is None:
            self._send(
                BatchedMessage(time, 1, len(line), False, self._pause(time))
                for time, line in zip(times, lines, strict=True)
            )
            return
        self._joiner.put(times, map(len, lines))
        self._send(self._joiner.advance(times[-1]))

    def total(self) -> Baseline:
        """What it came to."""
        self._send(self._joiner.close())
        return Baseline(self.topic, self.linger, self._begin or 0.0, messages=self._plain.messages, **self._sums)

    def _pause(self, time: float) -> float:
        """Seconds since the message before."""
        before, self._last = self._last, time
        return time - before if before is not None else 0.0

    def _send(self, messages: Iterable[BatchedMessage]) -> None:
        sums = self._sums
        for message in messages:
            lines = [self._waiting.popleft() for _ in range(message.frames)]
            text = lines[0] if self.linger is None else b"[" + b",".join(lines) + b"]"
            packed = min(len(deflate(text)), len(text))
            sums["message"] += len(text)
            sums["link"] += self._plain.message(len(text), idle=message.idle)
            sums["deflated_message"] += packed
            sums["deflated_link"] += self._packed.message(packed, idle=message.idle)


def _shortened(value: Any) -> Any:
    """Whole numbers without their `.0`, and nothing for what is absent."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {name: _shortened(item) for name, item in value.items() if item is not None}
    return [_shortened(item) for item in value] if isinstance(value, list) else value


def _written(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=_written)
