"""Recordings of real streams: SKAB valves, library motes, bike share.

None of them is part of the project; `MissingDataset` names the missing file. Tolerances are a share of the range of
each property in the recording, for these properties:

    recording     within 0.5 % of min..max                         exact
    SKAB valves   the eight sensors                                datetime
    bike share    the seven counts (so small that 0.5 % is < 1)    poll_time, last_reported, flags, texts
    motes         temperatures, voltage, humidity, PAR, TSR        arrival, sequence

The two label columns of SKAB are omitted: they are annotations that were added later, not values of the stream.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from thinwire.schema import Kind, Role, Schema, infer
from thinwire_lab.errors import MissingDataset
from thinwire_lab.streams.checked_stream import seconds_of

Event = dict[str, Any]

_NUMBERS = (Kind.NUMBER, Kind.INTEGER, Kind.FLOAT)
_LABELS = ("anomaly", "changepoint")
_MOTE_NAMES = ("arrival", "node", "sequence", "internal_temp", "voltage", "humidity", "temp", "par", "tsr")
_MOTE_INTEGERS = frozenset({"arrival", "node", "sequence", "par", "tsr"})


@dataclass(frozen=True)
class Recording:
    """A recorded stream.

    runs: its events, one list for each stream
    exact: measurements without a tolerance
    seconds: function from an event to its time
    """

    name: str
    schema: Schema
    runs: tuple[list[Event], ...]
    exact: frozenset[str]
    seconds: Callable[[Mapping[str, Any]], float]

    def tolerances(self, share: float) -> dict[str, float]:
        """Return a share of the range of every number, in its unit."""
        numbers = [
            p.name
            for p in self.schema.wire
            if p.role is Role.MEASUREMENT and p.kind in _NUMBERS and p.name not in self.exact
        ]
        return {name: share * self._range(name) for name in numbers}

    def _range(self, name: str) -> float:
        values = [event[name] for run in self.runs for event in run if event.get(name) is not None]
        return float(max(values) - min(values))


def skab_valves(folder: Path) -> Recording:
    """Read the valve experiments of the SKAB water test bed, one sample per second.

    Every file is an experiment of its own, on another day or after a pause, so each is a stream of its own.
    """
    files = _files(folder, "sensors-skab/valve[12]_*.csv.gz")
    runs = tuple([_skab_event(row) for row in csv.DictReader(_lines(file), delimiter=";")] for file in files)
    schema = _schema("skab.valves", runs, dimensions=(), time="datetime")
    return Recording("SKAB valves", schema, runs, frozenset(), seconds_of(schema))


def motes(folder: Path) -> Recording:
    """Read the motes in a library, one reading per minute each.

    The three files of the first deployment are one stream; the second deployment, two weeks later, is another.
    """
    first = _files(folder, "sensors-wsn/ulb_library1_R*.txt.gz")
    second = _files(folder, "sensors-wsn/ulb_library2_readings.txt.gz")
    runs = tuple([_mote_event(line) for file in files for line in _lines(file) if line] for files in (first, second))
    schema = _schema("library.motes", runs, dimensions=("node",), time="arrival")
    return Recording("library motes", schema, runs, frozenset({"sequence"}), lambda e: e["arrival"] / 1000)


def bike_share(folder: Path, limit: int | None = None) -> Recording:
    """Read the status of all bike stations of a city, polled about every ten minutes; at most `limit` events."""
    (file,) = _files(folder, "bikeshare/baywheels_station_status_*.ndjson.gz")
    run = [json.loads(line) for line in islice(_lines(file), limit)]
    schema = _schema("bikes.stations", (run,), dimensions=("station_id",), time="poll_time")
    return Recording("bike share", schema, (run,), frozenset({"last_reported"}), lambda e: float(e["poll_time"]))


def _schema(name: str, runs: tuple[list[Event], ...], dimensions: tuple[str, ...], time: str) -> Schema:
    events = [event for run in runs for event in run]
    return infer(events, name, dimensions=dimensions, time=time, ranges=True, limit=len(events))


def _skab_event(row: Mapping[str, str]) -> Event:
    return {name: text if name == "datetime" else float(text) for name, text in row.items() if name not in _LABELS}


def _mote_event(line: str) -> Event:
    texts = dict(zip(_MOTE_NAMES, line.split(" "), strict=True))
    return {name: _integer(text) if name in _MOTE_INTEGERS else _decimal(text) for name, text in texts.items()}


def _integer(text: str) -> int:
    """Parse an integer. The third file separates thousands with a no-break space."""
    return int(text.replace("\xa0", ""))


def _decimal(text: str) -> float:
    return float(text.replace(",", "."))


def _lines(file: Path) -> Iterator[str]:
    with gzip.open(file, "rt", encoding="latin-1" if file.name.startswith("ulb_") else "utf-8") as lines:
        for line in lines:
            yield line.rstrip("\r\n")


def _files(folder: Path, pattern: str) -> list[Path]:
    found = sorted(folder.glob(pattern))
    if not found:
        raise MissingDataset(folder=str(folder), pattern=pattern)
    return found
