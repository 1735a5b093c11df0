"""Lines of orders as the TPC-H benchmark fills its largest table, written as its files are (`lineitem.tbl`).

Columns follow section 4.2.3 of the specification: keys that belong together, prices that follow from the part, dates
that follow from the order's, and comments cut out of one long text made by its grammar. Chance and the text are our
own, so rows look like those of `dbgen` and are not the same.

>>> next(lineitems()).count(b"|"), 100 < sum(map(len, lineitems(500))) / 500 < 140
(16, True)

Streams to measure codecs and dictionaries on: one message a line, read as they are needed.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from pathlib import Path
from random import Random

from thinwire_lab.errors import MissingDataset
from thinwire_lab.streams import generated_streams as stream_forms
from thinwire_lab.streams import generated_streams as stream_generators
from thinwire_lab.streams import generated_streams as stream_protobuf

ROWS = 1_000_000
PARTS, SUPPLIERS = 200_000, 10_000
"""at scale factor 1"""
TEXT = 100_000
"""bytes of the text that comments are cut out of"""
_FIRST, _ORDER_DAYS = date(1992, 1, 1), 2405
_TODAY = date(1995, 6, 17)
_INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
_MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
_GRAMMAR = {
    "adjective": """special pending unusual express furious sly careful blithe quick fluffy slow quiet ruthless thin
        close dogged daring brave stealthy permanent enticing idle busy regular final ironic even bold silent""",
    "noun": """foxes ideas theodolites instructions dependencies excuses platelets asymptotes courts dolphins frets
        multipliers sauternes warthogs dinos attainments somas braids frays warhorses dugouts notornis epitaphs pearls
        tithes waters orbits gifts sheaves depths sentiments decoys realms pains grouches escapades deposits requests
        accounts packages""",
    "verb": """sleep wake are cajole haggle nag use boost affix detect integrate maintain nod was lose sublate solve
        thrash promise engage hinder print x-ray breach eat grow impress mold poach serve run dazzle snooze doze
        unwind kindle""",
    "adverb": """sometimes always never furiously slyly carefully blithely quickly fluffily slowly quietly ruthlessly
        thinly closely doggedly daringly bravely stealthily permanently enticingly idly busily regularly finally""",
    "preposition": "about above across after against along among around at before behind beneath beside between by",
}
_ENDS = (".", ";", ":", "?", "!", "--")


def lineitems(rows: int = ROWS) -> Iterator[bytes]:
    """The rows, order by order; the same every time."""
    chance, text = Random(1), _text(Random(2))
    order = left = 0
    for _ in range(rows):
        if not left:
            order, left = order + 1, chance.randrange(1, 8)
            lines, ordered = left, _FIRST + timedelta(chance.randrange(_ORDER_DAYS))
        left -= 1
        yield _row(chance, text, _key(order), lines - left, ordered)


def _key(order: int) -> int:
    """Of every 32 keys the first eight are used."""
    return (order - 1) // 8 * 32 + (order - 1) % 8 + 1


def _row(chance: Random, text: str, order: int, line: int, ordered: date) -> bytes:
    part, quantity = chance.randrange(1, PARTS + 1), chance.randrange(1, 51)
    price = quantity * (90_000 + part // 10 % 20_001 + 100 * (part % 1_000))
    shipped, committed = (ordered + timedelta(chance.randrange(*days)) for days in ((1, 122), (30, 91)))
    received = shipped + timedelta(chance.randrange(1, 31))
    returned = chance.choice("RA") if received <= _TODAY else "N"
    numbers = f"{order}|{part}|{_supplier(chance, part)}|{line}|{quantity}|{price / 100:.2f}"
    rates = f"{chance.randrange(11) / 100:.2f}|{chance.randrange(9) / 100:.2f}|{returned}"
    dates = f"{'O' if shipped > _TODAY else 'F'}|{shipped}|{committed}|{received}"
    return f"{numbers}|{rates}|{dates}|{_random_text(chance, text)}|".encode()


def _supplier(chance: Random, part: int) -> int:
    """One of the four that sell a part."""
    return (part + chance.randrange(4) * (SUPPLIERS // 4 + (part - 1) // SUPPLIERS)) % SUPPLIERS + 1


def _random_text(chance: Random, text: str) -> str:
    length = chance.randrange(10, 44)
    at = chance.randrange(len(text) - length)
    return f"{chance.choice(_INSTRUCTIONS)}|{chance.choice(_MODES)}|{text[at : at + length]}"


def _text(chance: Random) -> str:
    words = {kind: text.split() for kind, text in _GRAMMAR.items()}
    sentences, size = [], 0
    while size < TEXT:
        sentences.append(_sentence(chance, words))
        size += len(sentences[-1]) + 1
    return " ".join(sentences)


def _sentence(chance: Random, words: Mapping[str, Sequence[str]]) -> str:
    said = [chance.choice(words[kind]) for kind in ("adjective", "noun", "verb", "adverb")]
    if chance.random() < 0.5:
        said += [chance.choice(words["preposition"]), "the", chance.choice(words["noun"])]
    return " ".join(said[chance.randrange(2) :]) + chance.choice(_ENDS)


_GENERATED: dict[str, Callable[[], Iterator[bytes]]] = {
    "taxi-csv": stream_generators.taxi_csv,
    "taxi-json": stream_generators.taxi_json,
    "taxi-xml": stream_generators.taxi_xml,
    "taxi-pb": stream_generators.taxi_protobuf,
    "building-json": stream_generators.building_json,
    "lineitem-tbl": lineitems,
    "drift-json": stream_generators.drifting_json,
}

_KNOWN: dict[str, tuple[str, Callable[[Path], Iterator[bytes]]]] = {
    "debs-csv": ("nyc-taxi/debs2015_sorted_data_10k.csv.gz", stream_forms.lines),
    "debs-json": ("nyc-taxi/debs2015_sorted_data_10k.csv.gz", stream_forms.read_taxi_json),
    "debs-xml": ("nyc-taxi/debs2015_sorted_data_10k.csv.gz", stream_forms.read_taxi_xml),
    "debs-pb": ("nyc-taxi/debs2015_sorted_data_10k.csv.gz", stream_protobuf.read_taxi_protobuf),
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
class NamedStream:
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


def generated() -> list[NamedStream]:
    """The streams that need no file; the same messages every time."""
    return [NamedStream(name) for name in _GENERATED]


def streams(folder: Path) -> list[NamedStream]:
    """The streams of a folder: recordings that are known by their place, then its own files, by name."""
    known = [NamedStream(name, folder / place) for name, (place, _) in _KNOWN.items() if (folder / place).exists()]
    own = _named(sorted(file for file in folder.iterdir() if _is_stream(file)))
    if not known and not own:
        raise MissingDataset("a folder without streams: one file each, one message a line", folder=str(folder))
    return known + own


def _is_stream(file: Path) -> bool:
    return file.is_file() and not file.name.startswith(".") and not file.name.lower().endswith(".md")


def _named(files: Sequence[Path]) -> list[NamedStream]:
    """A stream a file, by its plain name where no other has the same."""
    common = Counter(map(_plain, files))
    return [NamedStream(_plain(file) if common[_plain(file)] == 1 else file.name, file) for file in files]


def _plain(file: Path) -> str:
    """The name of a file without what it is packed with and written in."""
    return file.name.removesuffix(".gz").rsplit(".", 1)[0]
