"""The length of an event's path through the code: files, calls and changes of package a steady-state event."""

from __future__ import annotations

import asyncio

from event_path import PathCost, trace_paths

ORIGINAL = {"publish": PathCost(10, 42, 11), "log": PathCost(16, 80, 28), "channel": PathCost(32, 211, 50)}
"""figures before the client was restructured; at most half of them is allowed for `log` and `channel`"""
LIMITS = {"publish": PathCost(7, 16, 2), "log": PathCost(6, 22, 6), "channel": PathCost(16, 80, 18)}
"""with a margin for periodic checks, which every event has on a slow machine"""


def test_paths_stay_within_their_limits() -> None:
    costs = {name: PathCost.of(calls) for name, calls in asyncio.run(trace_paths()).items()}
    exceeded = {
        name: (cost, LIMITS[name])
        for name, cost in costs.items()
        if any(value > limit for value, limit in zip(cost, LIMITS[name], strict=True))
    }
    assert not exceeded
