"""Conversion of recorded files into messages, and generated streams for machines without recordings.

Taxi trips are converted to the JSON, XML and Protocol Buffers of the original study. All fields of its message are
required strings, integers or 32-bit floats, so they are written here, in the order of their numbers.

>>> row = b"M,H,2013-01-01 00:00:00,2013-01-01 00:02:00,9,0.44,-73.9,40.7,-73.9,40.7,CSH,3.50,0.50,0.50,0.00,0.00,4.50"
>>> as_json(row)[:50], as_xml(row)[:47]
(b'{"tip_amount": "0.00", "payment_type": "CSH", "dro', b'<trip><tip_amount>0.00</tip_amount><payment_typ')
>>> as_protobuf(row)[:9], len(as_protobuf(row))
(b'\\n\\x01M\\x12\\x01H\\x1a\\x132', 112)

Generated streams have a fixed seed, so every call returns the same messages. `drifting` replaces one of its words every
`life / words` messages, so that after `life` messages none of the first words is left.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import BinaryIO

from thinwire.errors import CorruptRecording, TooLarge
from thinwire.wire import varint

MAX_LINE = 1 << 24
"""bytes"""

TAXI_COLUMNS = (
    *("medallion", "hack_license", "pickup_datetime", "dropoff_datetime", "trip_time_in_secs", "trip_distance"),
    *("pickup_longitude", "pickup_latitude", "dropoff_longitude", "dropoff_latitude", "payment_type", "fare_amount"),
    *("surcharge", "mta_tax", "tip_amount", "tolls_amount", "total_amount"),
)
TAXI_ORDER = (
    *("tip_amount", "payment_type", "dropoff_latitude", "dropoff_datetime", "medallion", "pickup_datetime", "mta_tax"),
    *("total_amount", "tolls_amount", "surcharge", "hack_license", "fare_amount", "pickup_longitude"),
    *("pickup_latitude", "trip_time_in_secs", "dropoff_longitude", "trip_distance"),
)
"""order of the fields in the JSON and XML of the original study"""
_ORDER = [TAXI_COLUMNS.index(name) for name in TAXI_ORDER]
_JSON = ("{" + ", ".join(f'"{name}": "%s"' for name in TAXI_ORDER) + "}").encode()
_XML = ("<trip>" + "".join(f"<{name}>%s</{name}>" for name in TAXI_ORDER) + "</trip>").encode()


def lines(file: Path) -> Iterator[bytes]:
    """Read one message per line, without empty lines."""
    with _open(file) as opened:
        yield from _lines(opened, file)


def as_json(row: bytes) -> bytes:
    """Return a row of taxi trips as the JSON of the original study."""
    return _JSON % _in_order(row)


def as_xml(row: bytes) -> bytes:
    """Return a row of taxi trips as the XML of the original study."""
    return _XML % _in_order(row)


def read_exchange_log(file: Path) -> Iterator[bytes]:
    """Read messages of an exchange: lines `time: JSON`. Lines of the recorder start with an address."""
    for line in lines(file):
        if not line.startswith(b"wss://"):
            yield line.partition(b": ")[2]


def read_timed_lines(file: Path) -> Iterator[bytes]:
    """Read lines `time,message`."""
    for line in lines(file):
        yield line.partition(b",")[2]


def read_trades(file: Path) -> Iterator[bytes]:
    """Read trades as JSON, all symbols in the order of time. Numbers keep their text."""
    header, *rows = lines(file)
    texts = (b"symbol", b"exchange", b"condition")
    form = b"{%s}" % b",".join(b'"%s":' % n + (b'"%s"' if n in texts else b"%s") for n in header.split(b","))
    for row in sorted(rows, key=lambda row: int(row.split(b",")[2])):
        yield form % tuple(row.split(b","))


def read_metrics(folder: Path) -> Iterator[bytes]:
    """Read the processor load of several machines in turn, as JSON."""
    files = sorted(folder.glob("realAWSCloudwatch_ec2_cpu_utilization_*.csv.gz"))
    machines = [file.name.removesuffix(".csv.gz").rpartition("_")[2].encode() for file in files]
    with ExitStack() as stack:
        opened = [_lines(stack.enter_context(_open(file)), file) for file in files]
        for number, rows in enumerate(zip(*opened, strict=False)):
            for machine, row in zip(machines, rows, strict=True):
                if number:  # the first line has the names of the columns
                    form = b'{"index": "%d", "timestamp": "%s", "value": "%s", "instance": "%s"}'
                    yield form % (number, *row.split(b","), machine)


def _in_order(row: bytes) -> tuple[bytes, ...]:
    values = row.split(b",")
    return tuple(values[index] for index in _ORDER)


def _open(file: Path) -> BinaryIO:
    return gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb")  # type: ignore[return-value]


def _lines(opened: BinaryIO, file: Path) -> Iterator[bytes]:
    while line := _line(opened, file):
        if len(line) == MAX_LINE:
            raise TooLarge("a line of a stream", file=str(file), limit=MAX_LINE)
        if message := line.rstrip(b"\r\n"):
            yield message


def _line(opened: BinaryIO, file: Path) -> bytes:
    try:
        return opened.readline(MAX_LINE)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorruptRecording(f"a stream cannot be unpacked: {error}", file=str(file)) from None


_VARINT, _TEXT, _FLOAT = 0, 2, 5
"""wire types: varint, length-delimited, four bytes"""
_TEXTS = ("medallion", "hack_license", "pickup_datetime", "dropoff_datetime", "payment_type")
_INTEGERS = ("trip_time_in_secs",)
_PACKED = struct.Struct("<f").pack


def as_protobuf(row: bytes) -> bytes:
    """Return a row of taxi trips as the `Taxitrip` of the original study."""
    return b"".join(write(value) for write, value in zip(_WRITERS, row.split(b","), strict=True))


def _writer(number: int, name: str) -> Callable[[bytes], bytes]:
    if name in _TEXTS:
        text = varint.write(number << 3 | _TEXT)
        return lambda value: text + varint.write_blob(value)
    if name in _INTEGERS:
        integer = varint.write(number << 3 | _VARINT)
        return lambda value: integer + varint.write(int(value))
    real = varint.write(number << 3 | _FLOAT)
    return lambda value: real + _PACKED(float(value))


_WRITERS = [_writer(number, name) for number, name in enumerate(TAXI_COLUMNS, 1)]


TAXIS = 4_000
TRIPS = 100_000
WORDS = 200
_START = datetime(2013, 1, 1)
_SHARES = (0.6, 0.99)
"""shares of trips paid in cash, and in cash or by card"""


def taxi_csv() -> Iterator[bytes]:
    """Generate taxi trips with the columns of the DEBS 2015 challenge."""
    random = Random(1)
    hexes = [b"%032X" % random.getrandbits(128) for _ in range(2 * TAXIS)]
    for trip in range(TRIPS):
        taxi = random.randrange(TAXIS)
        yield b",".join((hexes[taxi], hexes[TAXIS + taxi], *_trip(random, trip)))


def drifting(messages: int, life: int, words: int = WORDS, seed: int = 1) -> Iterator[bytes]:
    """Generate messages of four words from a vocabulary that is replaced at an even rate.

    life: messages after which all words are replaced
    """
    random = Random(seed)
    vocabulary = [_random_token(random) for _ in range(words)]
    for number in range(messages):
        if number * words // life != (number - 1) * words // life:
            vocabulary[number * words // life % words] = _random_token(random)
        first, second, third, fourth = (vocabulary[random.randrange(words)] for _ in range(4))
        yield b'{"event":%d,"from":"%s","to":"%s","about":"%s","with":"%s"}' % (number, first, second, third, fourth)


def _random_token(random: Random) -> bytes:
    return bytes(random.choices(b"abcdefghijklmnopqrstuvwxyz", k=random.randrange(8, 25)))


def _trip(random: Random, number: int) -> Iterator[bytes]:
    seconds = 60 * random.randrange(1, 40)
    start = _START + timedelta(seconds=number // 3 // 60 * 60)
    yield from (_stamp(start), _stamp(start + timedelta(seconds=seconds)), b"%d" % seconds)
    yield _amount(seconds / 240 * random.uniform(0.6, 1.6))
    for _ in range(2):
        yield from (b"%.6f" % random.gauss(-73.98, 0.02), b"%.6f" % random.gauss(40.75, 0.02))
    yield from _fare(random, 2.5 + seconds // 60 * 0.5)


def _fare(random: Random, fare: float) -> Iterator[bytes]:
    payment = random.random()
    by_card = _SHARES[0] <= payment < _SHARES[1]
    tip = round(fare * random.choice((0.1, 0.15, 0.2)), 2) if by_card else 0.0
    tolls = 4.8 if random.random() < 0.03 else 0.0
    yield b"CRD" if by_card else b"CSH" if payment < _SHARES[0] else b"UNK"
    yield from map(_amount, (fare, 0.5, 0.5, tip, tolls, fare + 1.0 + tip + tolls))


def _stamp(instant: datetime) -> bytes:
    return instant.isoformat(" ").encode()


def _amount(value: float) -> bytes:
    return b"%.2f" % value
