"""The gate: real recordings, all bytes counted, every event checked on arrival.

The baseline is what a careful team does without us: compact JSON, and the same with raw deflate (level 6) a message.
Ours is every byte of every frame, key frames, heartbeats and switches included, one frame a message, with the settings
a user gets who sets nothing but a tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from thinwire.analysis import json_baseline as references
from thinwire.codec import Counts, Demand, StreamConfig
from thinwire_lab.bench.benchmark import Bar, Row, Setting, unmeasured
from thinwire_lab.errors import MissingDataset
from thinwire_lab.streams import datasets
from thinwire_lab.streams.checked_stream import CheckedLink
from thinwire_lab.streams.datasets import Recording

SHARE = 0.005
"""the tolerance of the gate, as a share of each property's range"""


OFTEN = StreamConfig(key_frame_interval=600.0, max_silence=10.0)
"""the pace that was first the default; shown beside, because the gate depends on it"""


@dataclass(frozen=True)
class RecordingLimit:
    """One row of a recording: tolerance as a share of the range, what it is compared with, and the bar."""

    share: float
    baseline: str
    high: float


@dataclass
class Tape:
    """A recording put through a link: bytes, and whether the promise was kept."""

    events: int = 0
    data_bytes: int = 0
    key_bytes: int = 0
    control_bytes: int = 0
    switches: int = 0
    breach: str = ""

    @property
    def frame_bytes(self) -> int:
        return self.data_bytes + self.key_bytes + self.control_bytes

    def add(self, link: CheckedLink) -> None:
        counts: Counts = link.counts
        self.events += counts.events
        self.data_bytes += counts.data_bytes
        self.key_bytes += counts.key_bytes
        self.control_bytes += counts.control_bytes
        self.switches += link.switches
        if not link.checker.is_guarantee_met:
            self.breach = self.breach or f"promise broken: {link.checker.first_breach or 'events are missing'}"


def play(recording: Recording, config: StreamConfig) -> Tape:
    """Publish a recording on one link a run, and check what arrives."""
    tape = Tape()
    for run in recording.runs:
        link = CheckedLink(recording.schema, config, start=recording.seconds(run[0]))
        for event in run:
            link.publish(event, recording.seconds(event))
        link.close()
        tape.add(link)
    return tape


def baselines(events: Iterable[Any]) -> dict[str, int]:
    """The bytes of the usual methods."""
    sizes = {"JSON": 0, "JSON+deflate": 0}
    for event in events:
        text = references.compact_json(event)
        sizes["JSON"] += len(text)
        sizes["JSON+deflate"] += len(references.deflate(text))
    return sizes


def rows(name: str, limits: Sequence[RecordingLimit], read: Callable[[], Recording]) -> Iterator[Row]:
    """The rows of one recording; each tolerance is played once."""
    templates = [Row(_title(name, limit), "part", high=limit.high) for limit in limits]
    try:
        recording = read()
    except MissingDataset:
        yield from unmeasured(templates)
        return
    sizes = baselines(chain(*recording.runs))
    for pace, bars in ((StreamConfig(), templates), (OFTEN, [_beside(row) for row in templates])):
        tapes = {share: _played(recording, share, pace) for share in {limit.share for limit in limits}}
        for limit, row in zip(limits, bars, strict=True):
            tape, size = tapes[limit.share], sizes[limit.baseline]
            value = tape.frame_bytes / size
            yield replace(row, value=value, how=_how(tape, size), note=tape.breach, sound=not tape.breach)


def _played(recording: Recording, share: float, pace: StreamConfig) -> Tape:
    tolerance = recording.tolerances(share) if share else {}
    return play(recording, replace(pace, demand=Demand(tolerance=tolerance)))


def _beside(row: Row) -> Row:
    """The same row at the pace that costs more, without a bar."""
    return Row(f"{row.name}; key frames every 600 s, heartbeats every 10 s", row.unit)


def _title(name: str, limit: RecordingLimit) -> str:
    tolerance = f"{100 * limit.share:g} % of range" if limit.share else "exact"
    return f"{name}, {tolerance}: frames to {limit.baseline}"


def _how(tape: Tape, baseline: int) -> str:
    n = tape.events
    parts = f"data {tape.data_bytes / n:.2f} + key {tape.key_bytes / n:.2f} + control {tape.control_bytes / n:.2f}"
    sizes = f"{tape.frame_bytes / n:.2f} bytes each ({parts}) against {baseline / n:.1f}"
    return f"{n:,} events, {sizes}; auto switched {tape.switches:,} times"


def _folder(setting: Setting) -> Path:
    if setting.data is None:
        raise MissingDataset(folder=None)
    return setting.data


def _skab(setting: Setting) -> Iterator[Row]:
    limits = [RecordingLimit(SHARE, "JSON+deflate", 1 / 14), RecordingLimit(0, "JSON+deflate", 1)]
    return rows("SKAB valves", limits, lambda: datasets.skab_valves(_folder(setting)))


def _motes(setting: Setting) -> Iterator[Row]:
    limits = [RecordingLimit(SHARE, "JSON+deflate", 1 / 10), RecordingLimit(0, "JSON+deflate", 1)]
    return rows("library motes", limits, lambda: datasets.motes(_folder(setting)))


def _bikes(setting: Setting) -> Iterator[Row]:
    limits = [
        RecordingLimit(SHARE, "JSON+deflate", 1 / 10),
        RecordingLimit(0, "JSON+deflate", 1),
        RecordingLimit(0, "JSON", 1 / 10),
    ]
    limit = 20_000 if setting.quick else None
    return rows("bike share", limits, lambda: datasets.bike_share(_folder(setting), limit))


BARS = [Bar("SKAB valves", _skab), Bar("library motes", _motes), Bar("bike share", _bikes)]
