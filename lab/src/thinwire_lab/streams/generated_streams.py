"""How recorded files become messages: as lines, or turned into the form in which they would be published.

>>> row = b"M,H,2013-01-01 00:00:00,2013-01-01 00:02:00,9,0.44,-73.9,40.7,-73.9,40.7,CSH,3.50,0.50,0.50,0.00,0.00,4.50"
>>> as_json(row)[:50], as_xml(row)[:47]
(b'{"tip_amount": "0.00", "payment_type": "CSH", "dro', b'<trip><tip_amount>0.00</tip_amount><payment_typ')
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from thinwire.errors import CorruptRecording, TooLarge

LONGEST = 1 << 24
"""bytes of a line"""

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
"""the order in which the original study wrote them into JSON and XML"""
_PLACES = [TAXI_COLUMNS.index(name) for name in TAXI_ORDER]
_JSON = ("{" + ", ".join(f'"{name}": "%s"' for name in TAXI_ORDER) + "}").encode()
_XML = ("<trip>" + "".join(f"<{name}>%s</{name}>" for name in TAXI_ORDER) + "</trip>").encode()


def lines(file: Path) -> Iterator[bytes]:
    """One message a line; empty lines are none."""
    with _opened(file) as opened:
        yield from _lines(opened, file)


def as_json(row: bytes) -> bytes:
    """A row of taxi trips as the JSON of the original study."""
    return _JSON % _in_order(row)


def as_xml(row: bytes) -> bytes:
    """A row of taxi trips as the XML of the original study."""
    return _XML % _in_order(row)


def taxi_json(file: Path) -> Iterator[bytes]:
    return map(as_json, lines(file))


def taxi_xml(file: Path) -> Iterator[bytes]:
    return map(as_xml, lines(file))


def captured(file: Path) -> Iterator[bytes]:
    """What an exchange sent: lines `time: JSON`; those of the recorder itself begin with an address."""
    for line in lines(file):
        if not line.startswith(b"wss://"):
            yield line.partition(b": ")[2]


def behind_comma(file: Path) -> Iterator[bytes]:
    """Lines `time,message`."""
    for line in lines(file):
        yield line.partition(b",")[2]


def ticks(file: Path) -> Iterator[bytes]:
    """Trades as JSON, all symbols in the order of time; numbers stay as they were written."""
    header, *rows = lines(file)
    texts = (b"symbol", b"exchange", b"condition")
    form = b"{%s}" % b",".join(b'"%s":' % n + (b'"%s"' if n in texts else b"%s") for n in header.split(b","))
    for row in sorted(rows, key=lambda row: int(row.split(b",")[2])):
        yield form % tuple(row.split(b","))


def metrics(folder: Path) -> Iterator[bytes]:
    """The processor load of several machines, one reading of each in turn, as JSON."""
    files = sorted(folder.glob("realAWSCloudwatch_ec2_cpu_utilization_*.csv.gz"))
    machines = [file.name.removesuffix(".csv.gz").rpartition("_")[2].encode() for file in files]
    with ExitStack() as stack:
        opened = [_lines(stack.enter_context(_opened(file)), file) for file in files]
        for number, rows in enumerate(zip(*opened, strict=False)):
            for machine, row in zip(machines, rows, strict=True):
                if number:  # the first line of each names its columns
                    form = b'{"index": "%d", "timestamp": "%s", "value": "%s", "instance": "%s"}'
                    yield form % (number, *row.split(b","), machine)


def _in_order(row: bytes) -> tuple[bytes, ...]:
    values = row.split(b",")
    return tuple(values[place] for place in _PLACES)


def _opened(file: Path) -> BinaryIO:
    return gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb")  # type: ignore[return-value]


def _lines(opened: BinaryIO, file: Path) -> Iterator[bytes]:
    while line := _line(opened, file):
        if len(line) == LONGEST:
            raise TooLarge("a line of a stream", file=str(file), limit=LONGEST)
        if message := line.rstrip(b"\r\n"):
            yield message


def _line(opened: BinaryIO, file: Path) -> bytes:
    try:
        return opened.readline(LONGEST)
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise CorruptRecording(f"a stream that cannot be unpacked: {problem}", file=str(file)) from None
