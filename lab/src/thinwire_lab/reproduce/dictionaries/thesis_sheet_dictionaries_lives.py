"""Lives of dictionaries: what Predict expected when it made one, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

Lives = list[tuple[float, float]]


def expected_and_seen(decisions: Sequence[Mapping[str, Any]]) -> Lives:
    """Of every dictionary that was replaced: the messages it was expected to live for, and those it lived for.

    >>> replaced = [{"seen": at, "decision": "replace", "life": life} for at, life in ((500, 1000), (2500, 800))]
    >>> expected_and_seen([*replaced, {"seen": 3300, "decision": "prolong", "life": 800}])
    [(1000, 2000)]
    """
    made = [decision for decision in decisions if decision["decision"] == "replace"]
    return [(one["life"], later["seen"] - one["seen"]) for one, later in pairwise(made)]


def still_expected(decisions: Sequence[Mapping[str, Any]]) -> list[float]:
    """The life that was expected of the dictionary still in use; empty where there is none.

    >>> still_expected([{"seen": 500, "decision": "replace", "life": 1000}])
    [1000]
    """
    return [decision["life"] for decision in decisions if decision["decision"] == "replace"][-1:]


def error(lives: Lives) -> float | None:
    """The mean error in per cent of what was seen; None where no dictionary was replaced.

    >>> error([(1000, 2000), (900, 1000)])
    30.0
    """
    return 100 * fmean(abs(expected - seen) / seen for expected, seen in lives) if lives else None
