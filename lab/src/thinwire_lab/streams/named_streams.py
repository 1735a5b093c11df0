"""Streams that codecs and dictionaries are measured on: one message per line, read on demand.

A folder with files of one message per line is a folder of streams (also gzipped). Recordings with another layout are
recognised by their path (`_KNOWN`) and converted to messages. Without a folder there are generated streams.

>>> [stream.name for stream in generated()]
['taxi-csv', 'taxi-json', 'taxi-xml', 'taxi-pb', 'building-json', 'lineitem-tbl', 'drift-json']
>>> taxi = generated()[1]
>>> len(list(taxi.messages(3))), next(taxi.messages(1))[:40]
(3, b'{"tip_amount": "0.00", "payment_type": "')

`lineitems` are lines as in the largest table of the TPC-H benchmark (`lineitem.tbl`). Columns follow section 4.2.3 of
its specification; random numbers and comments differ, so the rows are like those of `dbgen`, but not the same.

>>> next(lineitems()).count(b"|"), 100 < sum(map(len, lineitems(500))) / 500 < 140
(16, True)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from pathlib import Path
from random import Random

from thinwire.analysis.json_baseline import compact_json
from thinwire.demo import building
from thinwire_lab.errors import MissingDataset
from thinwire_lab.streams import generated_streams as convert

READINGS = 20_000
"""events of the sample building, one per second"""
DRIFTING, LIFE = 1_000_000, 100_000
"""messages of the drifting stream, and messages after which all its words are replaced"""
ROWS = 1_000_000
PARTS, SUPPLIERS = 200_000, 10_000
"""at scale factor 1"""
TEXT = 100_000
"""bytes of the text that comments are cut from"""
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
    """Generate the rows, order by order, always the same."""
    random, text = Random(1), _text(Random(2))
    order = left = 0
    for _ in range(rows):
        if not left:
            order, left = order + 1, random.randrange(1, 8)
            lines, ordered = left, _FIRST + timedelta(random.randrange(_ORDER_DAYS))
        left -= 1
        yield _row(random, text, _key(order), lines - left, ordered)


def _key(order: int) -> int:
    """Return the key of an order. Of every 32 keys the first eight are used."""
    return (order - 1) // 8 * 32 + (order - 1) % 8 + 1


def _row(random: Random, text: str, order: int, line: int, ordered: date) -> bytes:
    part, quantity = random.randrange(1, PARTS + 1), random.randrange(1, 51)
    price = quantity * (90_000 + part // 10 % 20_001 + 100 * (part % 1_000))
    shipped, committed = (ordered + timedelta(random.randrange(*days)) for days in ((1, 122), (30, 91)))
    received = shipped + timedelta(random.randrange(1, 31))
    returned = random.choice("RA") if received <= _TODAY else "N"
    numbers = f"{order}|{part}|{_supplier(random, part)}|{line}|{quantity}|{price / 100:.2f}"
    rates = f"{random.randrange(11) / 100:.2f}|{random.randrange(9) / 100:.2f}|{returned}"
    dates = f"{'O' if shipped > _TODAY else 'F'}|{shipped}|{committed}|{received}"
    return f"{numbers}|{rates}|{dates}|{_random_text(random, text)}|".encode()


def _supplier(random: Random, part: int) -> int:
    """Return one of the four suppliers of a part."""
    return (part + random.randrange(4) * (SUPPLIERS // 4 + (part - 1) // SUPPLIERS)) % SUPPLIERS + 1


def _random_text(random: Random, text: str) -> str:
    length = random.randrange(10, 44)
    at = random.randrange(len(text) - length)
    return f"{random.choice(_INSTRUCTIONS)}|{random.choice(_MODES)}|{text[at : at + length]}"


def _text(random: Random) -> str:
    words = {kind: text.split() for kind, text in _GRAMMAR.items()}
    sentences, size = [], 0
    while size < TEXT:
        sentences.append(_sentence(random, words))
        size += len(sentences[-1]) + 1
    return " ".join(sentences)


def _sentence(random: Random, words: Mapping[str, Sequence[str]]) -> str:
    sentence = [random.choice(words[kind]) for kind in ("adjective", "noun", "verb", "adverb")]
    if random.random() < 0.5:
        sentence += [random.choice(words["preposition"]), "the", random.choice(words["noun"])]
    return " ".join(sentence[random.randrange(2) :]) + random.choice(_ENDS)


_GENERATED: dict[str, Callable[[], Iterator[bytes]]] = {
    "taxi-csv": convert.taxi_csv,
    "taxi-json": lambda: map(convert.as_json, convert.taxi_csv()),
    "taxi-xml": lambda: map(convert.as_xml, convert.taxi_csv()),
    "taxi-pb": lambda: map(convert.as_protobuf, convert.taxi_csv()),
    "building-json": lambda: map(compact_json, building.events(READINGS)),
    "lineitem-tbl": lineitems,
    "drift-json": lambda: convert.drifting(DRIFTING, life=LIFE),
}

_KNOWN: dict[str, tuple[str, Callable[[Path], Iterator[bytes]]]] = {
    "debs-csv": ("nyc-taxi/debs2015_sorted_data_10k.csv.gz", convert.lines),
    "debs-json": ("nyc-taxi/debs2015_sorted_data_10k.csv.gz", lambda file: map(convert.as_json, convert.lines(file))),
    "debs-xml": ("nyc-taxi/debs2015_sorted_data_10k.csv.gz", lambda file: map(convert.as_xml, convert.lines(file))),
    "debs-pb": ("nyc-taxi/debs2015_sorted_data_10k.csv.gz", lambda file: map(convert.as_protobuf, convert.lines(file))),
    "coinbase-json": ("crypto-feed/COINBASE.ws.28.0.gz", convert.read_exchange_log),
    "kraken-json": ("crypto-feed/KRAKEN.ws.50.0.gz", convert.read_exchange_log),
    "wiki-json": ("wiki-edits/wikiticker-2015-09-12-sampled.json.gz", convert.lines),
    "ec2-json": ("sensors-cloudmetrics", convert.read_metrics),
    "senml-json": ("sensors-riotbench/SYS_sample_senml.csv.gz", convert.read_timed_lines),
    "taxi-senml": ("nyc-taxi/riotbench_TAXI_sample_senml.csv.gz", convert.read_timed_lines),
    "github-json": ("gharchive/2015-01-01-0.json.gz", convert.lines),
    "tweets-json": ("tweets/tweets_nl_1k.json.gz", convert.lines),
    "bikes-json": ("bikeshare/baywheels_station_status_2023-06-05_06.ndjson.gz", convert.lines),
    "rides-csv": ("nyc-taxi/flink_taxi_rides_100k.csv.gz", convert.lines),
    "ticks-json": ("market/us_equity_tick_trade_20131007.csv.gz", convert.read_trades),
    "openstack-log": ("loghub/OpenStack_2k.log.gz", convert.lines),
    "spark-log": ("loghub/Spark_2k.log.gz", convert.lines),
    "apache-log": ("loghub/Apache_2k.log.gz", convert.lines),
    "linux-log": ("loghub/Linux_2k.log.gz", convert.lines),
    "zookeeper-log": ("loghub/Zookeeper_2k.log.gz", convert.lines),
}
"""name -> path of the recording, and the conversion of its lines to messages"""


@dataclass(frozen=True)
class NamedStream:
    """Messages in order of publishing.

    path: the file or folder of a recording; None for a generated stream
    """

    name: str
    path: Path | None = None

    def messages(self, limit: int | None = None) -> Iterator[bytes]:
        """Read the messages from the start, at most `limit`."""
        return islice(self._all_messages(), limit)

    def _all_messages(self) -> Iterator[bytes]:
        if self.path is None:
            return _GENERATED[self.name]()
        path, read = _KNOWN.get(self.name, ("", convert.lines))
        return read(self.path) if path and self.path.match(path) else convert.lines(self.path)


def generated() -> list[NamedStream]:
    """Return the generated streams, which always have the same messages."""
    return [NamedStream(name) for name in _GENERATED]


def streams(folder: Path) -> list[NamedStream]:
    """Return the streams of a folder: recordings that are known by their path, then its other files by name."""
    known = [NamedStream(name, folder / path) for name, (path, _) in _KNOWN.items() if (folder / path).exists()]
    own = _named(sorted(file for file in folder.iterdir() if _is_stream(file)))
    if not known and not own:
        raise MissingDataset("no streams: files with one message per line are needed", folder=str(folder))
    return known + own


def _is_stream(file: Path) -> bool:
    return file.is_file() and not file.name.startswith(".") and not file.name.lower().endswith(".md")


def _named(files: Sequence[Path]) -> list[NamedStream]:
    """Return a stream for each file, with a short name if it is unique."""
    common = Counter(map(_short_name, files))
    return [NamedStream(_short_name(file) if common[_short_name(file)] == 1 else file.name, file) for file in files]


def _short_name(file: Path) -> str:
    """Return the name of a file without the suffixes of compression and format."""
    return file.name.removesuffix(".gz").rsplit(".", 1)[0]
