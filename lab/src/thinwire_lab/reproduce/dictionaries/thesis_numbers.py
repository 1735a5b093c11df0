"""Appendix B of the thesis as data: bytes saved in % with larger batches, one publisher and one subscriber.

Only figures whose place in the print is beyond doubt; the means are in `dictionaries_published.MEANS`.

>>> TABLES_B["B.1.1"].batch, TABLES_B["B.1.1"].saved["predict"]["DEBS json"]
(5, 84.4)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from thinwire_lab.reproduce.dictionaries.thesis_numbers_dictionaries_published import by_stream


class Batched(NamedTuple):
    """One table: messages in a batch, and by policy what it saved on each stream."""

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
