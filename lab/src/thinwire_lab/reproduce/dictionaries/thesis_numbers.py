"""Values of the thesis: C. Doblander, Compression in Publish/Subscribe Systems, TU Munich, 2018.

The values are in the CSV files of this package; an empty cell is a value that cannot be read in the thesis.

- `thesis_streams.csv`: tables of single streams, with the number of the table before the name of each column.
  `similar` lists similar streams of ours; streams of the thesis without a similar one are omitted.
- `thesis_policies.csv`: bytes saved in per cent by policy and messages in a batch, for single streams with one
  publisher, and the means over all 20 streams of the thesis with 1, 1,000 and 10,000 publishers.
- `thesis_speedups.csv`: speed-ups with Predict, measured on Apache Pulsar with 20,000 tweets and 50 ms one-way delay,
  by publishers and, in the columns, subscribers (figures 5.5.3 and 5.5.4, appendix C). The heat maps for 64, 128
  and 512 kbit, and most of those for publishers, cannot be read; other empty cells are runs that timed out.

>>> POLICY_TABLES["B.1.1"].batch, POLICY_TABLES["B.1.1"].saved["predict"]["DEBS json"], MEANS[1]["predict"]
(5, 84.4, (76.1, 72.0, 44.2))
>>> SPEED_UPS["receiving"]["1mbit"][13, 1], (8, 13) in SPEED_UPS["receiving"]["1mbit"]
(2.9, False)
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

PAPER = "C. Doblander: Compression in Publish/Subscribe Systems, dissertation, Technical University of Munich, 2018"


def _read(file: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file of this package."""
    with resources.files(__package__).joinpath(file).open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _numbers(row: Mapping[str, str], prefix: str = "") -> dict[str, float]:
    """Return the values of the columns with this prefix, which is left out of their names."""
    cells = {name.removeprefix(prefix): text for name, text in row.items() if name.startswith(prefix) and text}
    return {name: int(text) if text.isdecimal() else float(text) for name, text in cells.items()}


_STREAM_ROWS = {row.pop("stream"): row for row in _read("thesis_streams.csv")}
THESIS_STREAMS = {ours: stream for stream, row in _STREAM_ROWS.items() for ours in row.pop("similar").split()}
"""the most similar stream of the thesis, by our stream; only the DEBS rows are the same data"""


def _stream_table(number: str) -> dict[str, dict[str, float]]:
    """Return a table by stream and column."""
    values = {stream: _numbers(row, f"{number} ") for stream, row in _STREAM_ROWS.items()}
    return {stream: found for stream, found in values.items() if found}


TABLE_4_3_1 = _stream_table("4.3.1")
"""mean message size; settings of the best dictionary (`history`, `life`, `multiplier`); overhead per message; sizes and
bytes saved in % with deflate and with the dictionary"""
TABLE_4_3_2 = _stream_table("4.3.2")
"""bytes saved in % by Adaptive; the other columns of the table are those of 4.3.1"""
TABLE_5_4_2 = _stream_table("5.4.2")
"""mean and standard deviation of NSim, the similarity of messages (`dictionary_measures`), in %"""
TABLE_5_4_3 = _stream_table("5.4.3")
"""number of dictionaries that Predict creates in a million messages (GitHub has 126,245), and the mean error of the
predicted lifetime in %"""
TABLE_6_2_1 = _stream_table("6.2.1")
"""mean bytes of a message, plain, deflated and with the first dictionary; first value, last value and range of BR
(bytes saved in %); size of the dictionary in kB"""

TABLE_5_2_1 = {
    1.0: (97.8, 19.4),
    2.0: (93.9, 15.9),
    3.0: (94.4, 15.0),
    5.0: (91.3, 12.6),
    8.0: (91.6, 12.5),
    13.0: (91.0, 12.4),
    21.0: (87.4, 11.2),
    34.0: (82.6, 10.5),
    55.0: (74.6, 10.2),
    91.0: (65.7, 10.3),
}
"""mean dictionary usage and internal usage (`dictionary_measures`) in %, by multiplier"""


class PolicyTable(NamedTuple):
    """Bytes saved in % with batches of one size, with the best settings of each policy.

    saved: policy -> stream -> value, with one publisher and one subscriber
    means: policy -> means over the streams of the thesis with 1, 1,000 and 10,000 publishers
    """

    batch: int
    saved: dict[str, dict[str, float]]
    means: dict[str, tuple[float, ...]]


_MEAN_COLUMNS = ("1:1", "1,000:1", "10,000:1")


def _policy_tables() -> dict[str, PolicyTable]:
    tables: dict[str, PolicyTable] = {}
    for row in _read("thesis_policies.csv"):
        table = tables.setdefault(row.pop("table"), PolicyTable(int(row.pop("batch")), {}, {}))
        policy, values = row.pop("policy"), _numbers(row)
        if _MEAN_COLUMNS[0] in values:
            table.means[policy] = tuple(values.pop(column) for column in _MEAN_COLUMNS)
        table.saved[policy] = values
    return tables


POLICY_TABLES = _policy_tables()
"""tables 5.4.4 and 5.5.1, and those of appendix B with the values that can be read without doubt"""
MEANS = {table.batch: table.means for table in POLICY_TABLES.values()}
"""means by batch size and policy"""

SpeedUps = dict[tuple[int, int], float]
"""speed-up by publishers and subscribers"""


def _speed_ups(role: str) -> dict[str, SpeedUps]:
    found: dict[str, SpeedUps] = {}
    for row in _read("thesis_speedups.csv"):
        if row.pop("role") == role:
            cells, publishers = found.setdefault(row.pop("bandwidth"), {}), int(row.pop("publishers"))
            cells |= {(publishers, int(subscribers)): float(text) for subscribers, text in row.items() if text}
    return found


SPEED_UPS = {role: _speed_ups(role) for role in ("receiving", "publishing")}
"""speed-ups of subscribers and of publishers by bandwidth"""
