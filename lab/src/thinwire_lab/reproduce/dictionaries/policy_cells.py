"""Runs of policies on streams as grid cells, and interpolation over batch sizes.

Cells have JSON values as parameters and results, and open streams by name, so that they run in this process or on
Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from thinwire.analysis.analysis_run import Cell
from thinwire.dictionaries.topology import Topology
from thinwire.errors import ConfigError
from thinwire_lab.reproduce.dictionaries.byte_account import TOPOLOGIES
from thinwire_lab.reproduce.dictionaries.policy_run import WITH_LENGTH, Settings, run_stream
from thinwire_lab.streams.named_streams import NamedStream, generated, streams

Points = Sequence[tuple[float, float]]
"""batch size and value, ascending"""


def crossing_batch(points: Points, level: float) -> float | None:
    """Return the batch size at which the value falls to this level, interpolated over its logarithm; None if nowhere.

    >>> crossing_batch([(1, 100.0), (2, 60.0), (8, 40.0)], 50.0), crossing_batch([(1, 100.0), (55, 60.0)], 50.0)
    (4.0, None)
    """
    previous: tuple[float, float] | None = None
    for batch, size in points:
        if size <= level:
            if previous is None:
                return batch
            share = (previous[1] - level) / (previous[1] - size)
            return float(previous[0] * (batch / previous[0]) ** share)
        previous = batch, size
    return None


def interpolate(points: Points, batch: float) -> float:
    """Return the value at a batch size, interpolated over its logarithm.

    >>> interpolate([(1, 100.0), (2, 60.0), (8, 40.0)], 4.0)
    50.0
    """
    return float(np.interp(log(batch), [log(at) for at, _ in points], [value for _, value in points]))


def format_batch(batch: float | None) -> str:
    """Format a batch size.

    >>> format_batch(12.34), format_batch(None)
    ('12.3', 'no batch size')
    """
    return "no batch size" if batch is None else f"{batch:.1f}"


def available_streams(data: str | None) -> list[NamedStream]:
    """Return the streams of the folder `data`, and the generated streams with other names."""
    own = streams(Path(data)) if data else []
    names = {stream.name for stream in own}
    return own + [stream for stream in generated() if stream.name not in names]


def find_stream(name: str, data: str | None) -> NamedStream:
    """Return the stream with this name."""
    by_name = {stream.name: stream for stream in available_streams(data)}
    if name not in by_name:
        raise ConfigError("unknown stream", stream=name, choose_from=sorted(by_name))
    return by_name[name]


def messages_of(name: str, data: str | None, limit: int | None = None, cycle: bool = False) -> Iterator[bytes]:
    """Return at most `limit` messages of a stream, or all.

    cycle: repeat a stream that is shorter than the limit

    >>> len(list(messages_of("building-json", None, 5)))
    5
    """
    stream = find_stream(name, data)
    if not cycle:
        return stream.messages(limit)
    if limit is None:
        raise ConfigError("a stream that is repeated needs a limit; state a number of messages", stream=name)
    return islice(_cycled(stream), limit)


def _cycled(stream: NamedStream) -> Iterator[bytes]:
    count, previous = 0, -1
    while count > previous:
        previous = count
        for message in stream.messages():
            count += 1
            yield message


PUBLISHERS = [topology.publishers for topology in TOPOLOGIES]


def run_cell(
    stream: str,
    policy: str,
    data: str | None = None,
    settings: Settings | None = None,
    messages: int | None = None,
    cycle: bool = False,
    batch: int = 1,
    publishers: Sequence[int] = PUBLISHERS,
) -> dict[str, Any]:
    """Run one policy with one setting on one stream. Return one row per topology.

    messages: maximum number of messages; cycle: repeat a stream that is shorter
    batch: number of messages that are packed as one
    publishers: numbers of publishers, one topology each

    >>> cell = {"stream": "building-json", "policy": "deflate", "messages": 100}
    >>> [row["topology"] for row in run_cell(**cell)["rows"]]
    ['1:1', '1,000:1', '10,000:1']
    """
    length = _length(stream, data, messages, cycle) // batch if policy in WITH_LENGTH else None
    topologies = [Topology(count) for count in publishers]
    source = messages_of(stream, data, messages, cycle)
    rows = run_stream(source, policy, topologies, batch, settings=settings, expected=length)
    return {"rows": [{"stream": stream, **row} for row in rows]}


def _length(stream: str, data: str | None, messages: int | None, cycle: bool) -> int:
    if cycle and messages is not None:
        return messages
    return sum(1 for _ in messages_of(stream, data, messages))


def weight(cell: Cell) -> float:
    """Return the work of a cell: policies that train often or run once per topology take longer."""
    factors = {"deflate": 2.0, "predict": 3.0, "ours": 3.0, "ours, length known": 3.0}
    return factors.get(cell.get("policy", ""), 1.0) * float(cell.get("messages") or 100_000)
