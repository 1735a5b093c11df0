"""Streams to measure codecs and dictionaries on: one message a line, read as they are needed.

A folder of any files with one message a line is a folder of streams (gz allowed). Recordings of real streams that are
laid out otherwise are known by their place (`_KNOWN`) and turned into messages on the way. Without any folder there are
the generated ones.

>>> [stream.name for stream in generated()]
['taxi-csv', 'taxi-json', 'taxi-xml', 'taxi-pb', 'building-json', 'lineitem-tbl', 'drift-json']
>>> taxi = generated()[1]
>>> len(list(taxi.messages(3))), next(taxi.messages(1))[:40]
(3, b'{"tip_amount": "0.00", "payment_type": "')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from thinwire.errors import MissingData
from thinwire_lab.streams import generated_streams as stream_forms
from thinwire_lab.streams import generated_streams_stream_generators as stream_generators
from thinwire_lab.streams import generated_streams_stream_protobuf as stream_protobuf
from thinwire_lab.streams import named_streams as stream_lineitem

_GENERATED: dict[str, Callable[[], Iterator[bytes]]] = {
    "taxi-csv": stream_generators.taxi_csv,
    "taxi-json": stream_generators.taxi_json,
    "taxi-xml": stream_generators.taxi_xml,
    "taxi-pb": stream_generators.taxi_protobuf,
    "building-json": stream_generators.building_json,
    "lineitem-tbl": stream_lineitem.lineitems,
    "drift-json": stream_generators.drifting_json,
}

_KNOWN: dict[str, tuple[str, Callable[[Path], Iterator[bytes]]]] = {
    "debs-csv": ("nyc-taxi/debs2015_sorted_data_10k.csv.gz", stream_forms.lines),
    "debs-json": ("nyc-taxi/debs2015_sorted_data_10k.csv.gz", stream_forms.taxi_json),
    "debs-xml": ("nyc-taxi/debs2015_sorted_data_10k.csv.gz", stream_forms.taxi_xml),
    "debs-pb": ("nyc-taxi/debs2015_sorted_data_10k.csv.gz", stream_protobuf.taxi_protobuf),
    "coinbase-json": ("crypto-feed/COINBASE.ws.28.0.gz", stream_forms.captured),
    "kraken-json": ("crypto-feed/KRAKEN.ws.50.0.gz", stream_forms.captured),
    "wiki-json": ("wiki-edits/wikiticker-2015-09-12-sampled.json.gz", stream_forms.lines),
    "ec2-json": ("sensors-cloudmetrics", stream_forms.metrics),
    "senml-json": ("sensors-riotbench/SYS_sample_senml.csv.gz", stream_forms.behind_comma),
    "taxi-senml": ("nyc-taxi/riotbench_TAXI_sample_senml.csv.gz", stream_forms.behind_comma),
    "github-json": ("gharchive/2015-01-01-0.json.gz", stream_forms.lines),
    "tweets-json": ("tweets/tweets_nl_1k.json.gz", stream_forms.lines),
    "bikes-json": ("bikeshare/baywheels_station_status_2023-06-05_06.ndjson.gz", stream_forms.lines),
    "rides-csv": ("nyc-taxi/flink_taxi_rides_100k.csv.gz", stream_forms.lines),
    "ticks-json": ("market/us_equity_tick_trade_20131007.csv.gz", stream_forms.ticks),
    "openstack-log": ("loghub/OpenStack_2k.log.gz", stream_forms.lines),
    "spark-log": ("loghub/Spark_2k.log.gz", stream_forms.lines),
    "apache-log": ("loghub/Apache_2k.log.gz", stream_forms.lines),
    "linux-log": ("loghub/Linux_2k.log.gz", stream_forms.lines),
    "zookeeper-log": ("loghub/Zookeeper_2k.log.gz", stream_forms.lines),
}
"""name -> where the recording lies, and how its lines become messages"""


@dataclass(frozen=True)
class Stream:
    """Messages in the order in which they were, or would have been, published.

    path: the file or folder they are read from; None for a generated stream
    """

    name: str
    path: Path | None = None

    def messages(self, limit: int | None = None) -> Iterator[bytes]:
        """The messages, at most `limit`; every call begins anew."""
        return islice(self._every(), limit)

    def _every(self) -> Iterator[bytes]:
        if self.path is None:
            return _GENERATED[self.name]()
        place, form = _KNOWN.get(self.name, ("", stream_forms.lines))
        return form(self.path) if place and self.path.match(place) else stream_forms.lines(self.path)


def generated() -> list[Stream]:
    """The streams that need no file; the same messages every time."""
    return [Stream(name) for name in _GENERATED]


def streams(folder: Path) -> list[Stream]:
    """The streams of a folder: recordings that are known by their place, then its own files, by name."""
    known = [Stream(name, folder / place) for name, (place, _) in _KNOWN.items() if (folder / place).exists()]
    own = _named(sorted(file for file in folder.iterdir() if _is_stream(file)))
    if not known and not own:
        raise MissingData("a folder without streams: one file each, one message a line", folder=str(folder))
    return known + own


def _is_stream(file: Path) -> bool:
    return file.is_file() and not file.name.startswith(".") and not file.name.lower().endswith(".md")


def _named(files: Sequence[Path]) -> list[Stream]:
    """A stream a file, by its plain name where no other has the same."""
    common = Counter(map(_plain, files))
    return [Stream(_plain(file) if common[_plain(file)] == 1 else file.name, file) for file in files]


def _plain(file: Path) -> str:
    """The name of a file without what it is packed with and written in."""
    return file.name.removesuffix(".gz").rsplit(".", 1)[0]
