"""Which size of dictionary is worth most: a climb over a ladder of sizes, as few trainings as possible.

>>> worth = {256: 1.0, 384: 5.0, 512: 10.0, 768: 20.0, 1024: 30.0, 1536: 38.0, 2048: 35.0, 3072: 32.0, 4096: 31.0}
>>> climbed(list(worth), start=512, worth=worth.get)
1536
>>> climbed(list(worth), start=256, worth=worth.get, steps=GROWING + NEAR)
2048
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

LADDER = tuple(whole << power for power in range(7, 15) for whole in (2, 3))
"""bytes: 256, 384, 512, 768 and so on to 49,152"""
SEARCHING, GROWING, NEAR, REPLACING = (2, -2, 1, -1), (4,), (2, -2), (2,)
"""rungs of the ladder to go at a time: where nothing is known of the size, where a larger one may serve better by now,
around one that serves better, and where one like the present one will do"""
SAMPLE = 10
"""bytes of messages for every byte of a dictionary; from fewer it learns them by heart"""


def climbed(
    sizes: Sequence[int], start: int, worth: Callable[[int], float | None], steps: Sequence[int] = SEARCHING
) -> int | None:
    """The size that is worth most on the way, each of the steps in turn as long as it helps; None if no worth is known.

    A size whose worth is None ends the climb on its side.
    """
    asked: dict[int, float | None] = {}

    def known(place: int) -> float | None:
        if not 0 <= place < len(sizes):
            return None
        if place not in asked:
            asked[place] = worth(sizes[place])
        return asked[place]

    best = max(0, min(bisect_right(sizes, start) - 1, len(sizes) - 1))
    for step in steps:
        while _better(known(best + step), known(best)):
            best += step
    return sizes[best] if sizes and known(best) is not None else None


def _better(one: float | None, other: float | None) -> bool:
    return one is not None and (other is None or one > other)


def fitting(sample: int, ladder: Sequence[int] = LADDER) -> list[int]:
    """The sizes that so many bytes of messages can fill; the smallest always.

    >>> fitting(25_000), fitting(100)
    ([256, 384, 512, 768, 1024, 1536, 2048], [256])
    """
    return [size for size in ladder if size == ladder[0] or size * SAMPLE <= sample]
