"""Baselines: the same events as JSON, one message per event and batched with the same linger, plain and deflated.

The JSON has no blanks, and numbers are written as short as possible.

>>> compact_json({"room": "11.1", "t": 20.5})
b'{"room":"11.1","t":20.5}'
"""

from __future__ import annotations

import json
import zlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from thinwire.analysis.event_columns import EventClock, to_events
from thinwire.analysis.message_batches import BatchedMessage, MessageBatcher, SocketByteCounter
from thinwire.schema import Schema

RAW_DEFLATE = -15
"""argument of zlib for no header and checksum: six bytes less per message than the default of `zlib.compress`"""
LEVEL = 6
"""compression level"""


def _to_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=_to_text)


def compact_json(event: Mapping[str, Any]) -> bytes:
    """Return the JSON of an event without blanks; for sizes."""
    return _ENCODER.encode(event).encode()


def deflate(text: bytes) -> bytes:
    """Compress one message by itself."""
    return zlib.compress(text, LEVEL, wbits=RAW_DEFLATE)


@dataclass
class Baseline:
    """Numbers of bytes and messages of a segment of a topic as JSON.

    linger: seconds to collect events for a message; None for one message per event
    raw: bytes of the events; message: bytes of the payloads; link: bytes on both sockets
    deflated_message: bytes of deflated payloads; deflated_link: bytes on both sockets with deflated payloads
    """

    topic: str
    linger: float | None
    events: int = 0
    raw: int = 0
    message: int = 0
    link: int = 0
    messages: int = 0
    deflated_message: int = 0
    deflated_link: int = 0

    def joined(self, other: Baseline) -> Baseline:
        """Return the baseline of this segment and another segment of the same stream."""
        sums = [f.name for f in fields(self) if f.name not in ("topic", "linger")]
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in sums})


def measure_json(
    batches: Iterable[pa.RecordBatch], schema: Schema, lingers: Sequence[float], clock: EventClock | None = None
) -> list[Baseline]:
    """Return the baseline with one message per event, then a baseline for each linger.

    clock: the clock that reads the event times, if the segment starts in the middle of its stream
    """
    clock = clock or EventClock(schema)
    counters = [_JsonCounter(schema.name, linger) for linger in (None, *lingers)]
    for batch in batches:
        times = clock.read(batch).tolist()
        lines = [compact_json(_shorten(event)) for event in to_events(batch, schema)]
        for counter in counters:
            counter.add(times, lines)
    return [counter.close() for counter in counters]


def merge_baselines(baselines: Iterable[Baseline]) -> list[Baseline]:
    """Return one baseline per topic and linger."""
    groups: dict[tuple[str, float | None], Baseline] = {}
    for baseline in baselines:
        key = (baseline.topic, baseline.linger)
        groups[key] = groups[key].joined(baseline) if key in groups else baseline
    return list(groups.values())


class _JsonCounter:
    """Counts the JSON messages of one linger."""

    def __init__(self, topic: str, linger: float | None) -> None:
        self.baseline = Baseline(topic, linger)
        self._batcher = MessageBatcher(linger or 0.0, frame_overhead=1)
        self._plain, self._deflated = SocketByteCounter.for_json(topic), SocketByteCounter.for_json(topic)
        self._pending: deque[bytes] = deque()
        self._last_time: float | None = None

    def add(self, times: list[float], lines: list[bytes]) -> None:
        if not lines:
            return
        self.baseline.events += len(lines)
        self.baseline.raw += sum(map(len, lines))
        self._pending.extend(lines)
        if self.baseline.linger is None:
            pairs = zip(times, lines, strict=True)
            self._count(BatchedMessage(time, 1, len(line), False, self._seconds_idle(time)) for time, line in pairs)
        else:
            self._batcher.put(times, map(len, lines))
            self._count(self._batcher.advance(times[-1]))

    def close(self) -> Baseline:
        self._count(self._batcher.advance())
        return self.baseline

    def _seconds_idle(self, time: float) -> float:
        previous, self._last_time = self._last_time, time
        return time - previous if previous is not None else 0.0

    def _count(self, messages: Iterable[BatchedMessage]) -> None:
        sums = self.baseline
        for message in messages:
            lines = [self._pending.popleft() for _ in range(message.frames)]
            text = lines[0] if sums.linger is None else b"[" + b",".join(lines) + b"]"
            deflated = min(len(deflate(text)), len(text))
            sums.messages += 1
            sums.message += len(text)
            sums.link += self._plain.count_message(len(text), idle=message.idle)
            sums.deflated_message += deflated
            sums.deflated_link += self._deflated.count_message(deflated, idle=message.idle)


def _shorten(value: Any) -> Any:
    """Remove null values and the `.0` of whole numbers."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {name: _shorten(item) for name, item in value.items() if item is not None}
    return [_shorten(item) for item in value] if isinstance(value, list) else value
