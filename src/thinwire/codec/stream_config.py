"""Configuration and counters of a stream."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from thinwire.codec import Demand
from thinwire.codec.event_admission import LatePolicy
from thinwire.codec.reducer import MAX_SOURCES
from thinwire.errors import ConfigError
from thinwire.wire import FrameKind

MAX_VERSION = (1 << 63) - 1
KEY_FRAME_INTERVAL = 3600.0
"""default of `key_frame_interval`, in seconds"""
MAX_SILENCE = 30.0
"""default of `max_silence`, in seconds"""


@dataclass(frozen=True)
class StreamConfig:
    """Versioned configuration of a stream encoder.

    version: increases with every change; key frames contain it
    demand: tolerances, predictors, mode
    format: "compact" or "json"
    key_frame_interval: seconds in which the state of every source is sent once
    max_silence: maximum seconds between two heartbeats
    audit_every: send exact values with one event in this many, to measure errors; 0 for never
    late_policy: "accept" or "reject" events older than the latest of their source
    max_sources: maximum number of sources

    >>> StreamConfig(demand=Demand(default_tolerance=0.5), max_silence=5).format
    'compact'
    """

    version: int = 1
    demand: Demand = field(default_factory=Demand)
    format: Literal["compact", "json"] = "compact"
    key_frame_interval: float = KEY_FRAME_INTERVAL
    max_silence: float = MAX_SILENCE
    audit_every: int = 0
    late_policy: LatePolicy = "accept"
    max_sources: int = MAX_SOURCES

    def __post_init__(self) -> None:
        for name in ("key_frame_interval", "max_silence"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ConfigError(f"{name} must be a number of seconds above zero", value=value)
        if self.format not in ("compact", "json"):
            raise ConfigError("format is 'compact' or 'json'", format=self.format)
        if self.late_policy not in ("accept", "reject"):
            raise ConfigError("late_policy is 'accept' or 'reject'", late_policy=self.late_policy)
        for name, lowest, highest in (
            ("version", 0, MAX_VERSION),
            ("audit_every", 0, MAX_VERSION),
            ("max_sources", 1, MAX_SOURCES),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
                raise ConfigError(f"{name} must be a whole number from {lowest} to {highest}", value=value)


_KEYS = frozenset({FrameKind.KEY, FrameKind.INTRODUCTION})
_DATA = frozenset({FrameKind.DATA, FrameKind.EXCEPTION, FrameKind.JSON, FrameKind.PAYLOAD})


@dataclass
class Counts:
    """Events, frames and bytes of one end of a stream. Every byte of every frame is in one of the three sums."""

    events: int = 0
    rejected: int = 0
    frames: int = 0
    data_bytes: int = 0
    key_bytes: int = 0
    control_bytes: int = 0
    missed: int = 0
    duplicates: int = 0
    resyncs: int = 0
    unknown_frames: int = 0

    @property
    def frame_bytes(self) -> int:
        return self.data_bytes + self.key_bytes + self.control_bytes

    def add_data(self, frame: bytes) -> None:
        self.frames += 1
        self.data_bytes += len(frame)

    def add_all_data(self, frames: Sequence[bytes]) -> None:
        self.frames += len(frames)
        self.data_bytes += sum(map(len, frames))

    def add(self, frame: bytes) -> None:
        kind = frame[0] & 0x0F if frame else 0
        self.frames += 1
        if kind in _DATA:
            self.data_bytes += len(frame)
        elif kind in _KEYS:
            self.key_bytes += len(frame)
        else:
            self.control_bytes += len(frame)
