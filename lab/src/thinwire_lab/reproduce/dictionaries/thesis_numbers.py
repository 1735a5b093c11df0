"""Values of the thesis: C. Doblander, Compression in Publish/Subscribe Systems, TU Munich, 2018.

Streams have the names of ours that are similar. Streams of the thesis without a similar one are not in the tables of
single streams, but in the means, which are over all 20 streams of the thesis. Tables of appendix B contain only values
that can be read without doubt.

>>> TABLES_B["B.1.1"].batch, TABLES_B["B.1.1"].saved["predict"]["DEBS json"]
(5, 84.4)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PAPER = "C. Doblander: Compression in Publish/Subscribe Systems, dissertation, Technical University of Munich, 2018"

THESIS_STREAMS = {
    "debs-csv": "DEBS csv",
    "debs-json": "DEBS json",
    "debs-xml": "DEBS xml",
    "debs-pb": "DEBS pb",
    "taxi-csv": "DEBS csv",
    "taxi-json": "DEBS json",
    "taxi-xml": "DEBS xml",
    "taxi-pb": "DEBS pb",
    "lineitem-tbl": "tpch tbl",
    "coinbase-json": "Gdax json",
    "kraken-json": "Gdax json",
    "github-json": "GH json",
    "openstack-log": "Neut log",
    "tweets-json": "Twitter json",
    "bikes-json": "NYC-B json",
}
"""the most similar stream of the thesis, by our stream; only the DEBS rows are the same data"""


class Configured(NamedTuple):
    """Table 4.3.1: mean size, the best history/life/multiplier, overhead per message, sizes, and bytes saved in %."""

    mean: float
    history: int
    life: int
    multiplier: float
    overhead: float
    deflate_size: float
    size: float
    deflate: float
    saved: float


TABLE_4_3_1 = {
    "DEBS xml": Configured(711.41, 2100, 5500, 21, 5.08, 332.36, 85.18, 53.3, 88.0),
    "DEBS json": Configured(530.41, 2100, 5500, 21, 4.39, 289.68, 83.99, 45.4, 84.2),
    "DEBS csv": Configured(191.41, 500, 5500, 21, 3.1, 125.2, 72.75, 34.5, 62.0),
    "DEBS pb": Configured(174.96, 500, 5500, 21, 3.03, 161.02, 83.64, 8.0, 52.2),
    "Twitter json": Configured(2995.74, 100, 5500, 21, 13.68, 1241.52, 438.74, 58.7, 85.4),
}

TABLE_4_3_2 = {"DEBS xml": (88.0, 53.3, 85.46), "DEBS json": (84.2, 45.4, 80.17), "DEBS csv": (62.0, 34.5, 41.65)}
"""best fixed configuration, deflate, Adaptive: bytes saved in %"""

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
"""mean share of the dictionary in use and of a message that repeats itself, in %, by multiplier"""

TABLE_5_4_2 = {
    "DEBS csv": (83.90, 4.50),
    "DEBS json": (97.19, 0.67),
    "DEBS xml": (98.03, 0.47),
    "Gdax json": (81.69, 18.96),
    "GH json": (92.05, 4.34),
    "Neut log": (81.77, 14.97),
    "Twitter json": (96.04, 3.70),
    "NYC-B json": (98.08, 0.54),
    "tpch tbl": (98.12, 0.72),
}
"""mean NSim and its standard deviation"""

TABLE_5_4_3 = {
    "DEBS csv": (162, 54.2),
    "DEBS json": (50, 24.3),
    "DEBS pb": (229, 75.4),
    "DEBS xml": (35, 3.1),
    "Gdax json": (30, 50.2),
    "GH json": (5, 31.3),
    "Neut log": (22, 50.9),
    "Twitter json": (15, 0.0),
}
"""dictionaries of Predict in a million messages (GitHub: 126,245), and its mean error in % of a lifetime"""

_NAMES = (
    *("DEBS csv", "DEBS json", "DEBS pb", "DEBS xml", "Gdax json", "GH json", "Neut log", "tpch tbl", "Twitter json"),
    "NYC-B json",
)


def by_stream(*saved: float | None) -> dict[str, float]:
    """Return values by stream; None for a value that cannot be read."""
    return {name: figure for name, figure in zip(_NAMES, saved, strict=True) if figure is not None}


TABLE_5_4_4 = {
    "deflate": by_stream(34.2, 45.4, 7.7, 53.3, 26.6, 76.5, 23.4, 9.4, 61.8, 35.9),
    "fixed rate": by_stream(60.8, 77.1, 50.3, 77.1, 74.1, 84.4, 67.0, 45.1, 77.9, 71.3),
    "single": by_stream(57.2, 81.3, 46.9, 85.4, 76.9, 84.5, 61.6, 58.2, 83.2, 85.3),
    "adaptive": by_stream(59.1, 82.9, 48.4, 86.4, 77.4, 85.6, 65.0, 55.9, 84.2, 85.2),
    "predict": by_stream(59.4, 82.5, 49.0, 86.8, 76.6, 85.1, 69.8, 56.7, 84.4, 86.7),
}
"""bytes saved in %, one publisher and one subscriber, without batches; with the best settings"""

TABLE_5_5_1 = {
    "deflate": by_stream(47.2, 62.8, 25.7, 63.9, 51.3, 79.4, 43.7, 27.5, 71.6, 60.7),
    "fixed rate": by_stream(60.3, 78.1, 50.5, 82.1, 78.4, 85.1, 71.5, None, None, 79.6),
    "single": by_stream(60.0, None, None, None, None, None, 68.3, 59.9, 83.5, 86.6),
    "adaptive": by_stream(61.1, 83.6, None, 87.6, 81.3, None, 75.6, 58.2, 84.5, None),
    "predict": by_stream(None, None, None, None, None, None, None, None, 84.5, 87.9),
}
"""the same with batches of two, without values that cannot be read"""

MEANS = {
    1: {
        "deflate": (41.2, 41.2, 41.2),
        "fixed rate": (69.2, -69.1, -1314.4),
        "single": (75.1, 67.7, 1.3),
        "adaptive": (75.9, 65.3, -30.3),
        "predict": (76.1, 72.0, 44.2),
    },
    2: {"deflate": (57.1, 57.1, 57.1), "single": (76.5, 69.1, 2.5), "adaptive": (77.5, 68.6, -11.4),
        "predict": (77.3, 73.8, 46.5)},
    5: {"deflate": (69.2, 69.2, 69.2), "fixed rate": (75.7, -35.8, -1040.3), "single": (78.0, 70.5, 3.5),
        "adaptive": (78.7, 71.8, 9.3), "predict": (77.7, 74.6, 48.7)},
    8: {"deflate": (72.7, 72.7, 72.7), "fixed rate": (76.8, 5.2, -640.3), "single": (78.6, 71.2, 4.7),
        "adaptive": (79.2, 72.5, 11.4)},
    13: {"deflate": (75.3, 75.3, 75.3), "fixed rate": (77.8, -22.1, -921.8), "single": (79.0, 71.5, 3.8),
         "adaptive": (79.7, 73.1, 13.1), "predict": (78.2, 75.5, 51.0)},
    21: {"deflate": (77.2, 77.2, 77.2), "fixed rate": (78.7, -10.6, -814.9), "single": (79.5, 71.9, 4.2),
         "adaptive": (80.4, 73.8, 14.3), "predict": (78.9, 76.3, 52.9)},
    34: {"deflate": (78.5, 78.5, 78.5), "fixed rate": (79.3, -13.1, -845.5), "single": (79.9, 72.3, 4.0),
         "adaptive": (80.7, 74.7, 20.4), "predict": (79.8, 77.2, 54.2)},
}  # fmt: skip
"""bytes saved in % with 1, 1,000 and 10,000 publishers by batch size and policy, means over 20 streams (tables 5.4.4,
5.5.1 and appendix B; Predict at eight cannot be read)"""


class Degraded(NamedTuple):
    """Table 6.2.1: mean bytes plain, deflated and with the first dictionary; first and last BR; range; kB."""

    mean: float
    deflated: float
    packed: float
    begin: float
    end: float
    swing: float
    kilobytes: float


TABLE_6_2_1 = {
    "Gdax json": Degraded(258.77, 189.60, 82.27, 82.15, 68.21, 16.20, 2.84),
    "Neut log": Degraded(279.26, 220.75, 116.05, 75.73, 58.44, 43.76, 3.22),
    "NYC-B json": Degraded(414.42, 266.15, 52.58, 89.52, 87.31, 3.84, 3.13),
    "GH json": Degraded(3299.38, 646.79, 407.26, 87.22, 87.66, 13.53, 4.36),
    "Twitter json": Degraded(3078.41, 1221.67, 477.70, 84.88, 84.48, 1.96, 5.24),
    "DEBS xml": Degraded(710.90, 331.58, 98.14, 89.09, 86.19, 3.69, 3.08),
    "DEBS csv": Degraded(190.90, 126.28, 83.75, 65.80, 56.13, 11.56, 2.63),
    "DEBS json": Degraded(529.90, 288.88, 96.76, 85.23, 81.74, 4.92, 2.97),
    "DEBS pb": Degraded(174.96, 161.54, 95.62, 57.69, 45.35, 15.09, 2.92),
    "tpch tbl": Degraded(124.64, 112.12, 51.54, 63.44, 58.65, 6.13, 3.13),
}


class Batched(NamedTuple):
    """A table: messages in a batch, and the saved share by policy and stream."""

    batch: int
    saved: Mapping[str, Mapping[str, float]]


TABLES_B = {
    "B.1.1": Batched(
        5,
        {
            "deflate": by_stream(56.4, 74.9, 42.2, None, 70.7, 82.3, 61.4, 43.1, 78.9, 77.2),
            "single": by_stream(61.9, 83.5, 52.8, 87.2, 82.9, 85.3, 74.0, 62.7, 83.8, 87.7),
            "adaptive": by_stream(62.6, 84.9, 53.6, 88.6, 83.8, 86.8, 77.6, 59.7, 84.8, 88.8),
            "predict": by_stream(62.6, 84.4, 53.3, 81.5, 82.9, 82.3, 78.0, 60.3, 84.3, 88.5),
        },
    ),
    "B.1.2": Batched(8, {"deflate": by_stream(58.8, 78.3, 46.9, 82.8, 76.1, 83.5, 67.6, 48.8, 81.1, 81.7)}),
    "B.1.3": Batched(
        13,
        {
            "deflate": by_stream(60.3, 80.5, None, 84.9, 79.6, 84.5, 72.7, 53.7, 82.6, 84.6),
            "single": by_stream(63.3, 84.4, None, 87.8, 84.3, 85.6, 78.2, 64.6, None, 88.5),
            "adaptive": by_stream(63.9, 85.7, 55.4, 88.4, 85.3, 87.0, 80.5, 61.8, 85.3, 89.7),
            "predict": by_stream(63.4, 82.2, 55.0, 85.9, 84.2, 84.5, 79.7, 61.9, 82.8, 85.5),
        },
    ),
    "B.1.4": Batched(21, {"deflate": by_stream(61.2, 82.0, 52.9, 86.2, 81.9, None, 76.6, 57.4, 83.6, 86.5)}),
    "B.1.5": Batched(
        34,
        {
            "deflate": by_stream(61.9, 83.0, None, 87.0, 83.5, 85.9, 79.4, 60.5, 84.2, 87.8),
            "single": by_stream(64.4, 84.7, None, 88.0, 85.1, 85.7, 81.0, 65.7, 84.2, 88.9),
            "adaptive": by_stream(65.1, 85.3, 57.0, 88.9, 86.6, 86.8, 82.4, None, 85.7, 90.2),
            "predict": by_stream(64.2, 84.4, 56.5, 88.0, 84.4, 86.2, 81.9, 64.7, 84.7, 88.5),
        },
    ),
}
