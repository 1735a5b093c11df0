"""Policies by name, and the settings that the thesis tried of each.

>>> [policy for policy in POLICIES]
['deflate', 'single', 'fixed rate', 'adaptive', 'predict', 'ours', 'ours, length known']
>>> make("adaptive", Topology(1), None, {"gain": 3}).gain
3
>>> len(permutations("single")), len(permutations("single", quick=True)), permutations("predict")
(12, 5, [{}])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from thinwire.dictionaries.byte_account import Topology
from thinwire.dictionaries.policies import (
    Adaptive,
    CostBased,
    FixedRate,
    Policy,
    Predict,
    SingleDict,
    fixed_rate,
    single,
)
from thinwire.errors import ConfigError

Settings = Mapping[str, Any]
Make = Callable[[Topology, int | None, Settings], Policy | None]

POLICIES: dict[str, Make] = {
    "deflate": lambda topology, expected, settings: None,
    "single": lambda topology, expected, settings: SingleDict(**settings),
    "fixed rate": lambda topology, expected, settings: FixedRate(**settings),
    "adaptive": lambda topology, expected, settings: Adaptive(**settings),
    "predict": lambda topology, expected, settings: Predict(topology, **settings),
    "ours": lambda topology, expected, settings: CostBased(topology, **settings),
    "ours, length known": lambda topology, expected, settings: CostBased(topology, expected, **settings),
}
"""name -> from the topology, the length of the stream where it is known, and settings, to a policy"""

PUBLISHED = ("single", "fixed rate", "adaptive", "predict")
AWARE = ("predict", "ours", "ours, length known")
"""policies that know the topology: on another one they decide otherwise"""
TOLD = ("ours, length known",)
"""policies that are told how long the stream is"""

_GRIDS: dict[str, list[dict[str, Any]]] = {
    "single": [{"multiplier": multiplier} for multiplier in single.MULTIPLIERS],
    "fixed rate": [{"every": every} for every in fixed_rate.LIVES],
    "adaptive": [{"gain": gain} for gain in (1, 2, 3, 4, 5)],
}
_QUICK = {"single": (0, 2, 6, 8, 11), "fixed rate": (0, 1), "adaptive": (0, 2)}


def make(name: str, topology: Topology, expected: int | None = None, settings: Settings | None = None) -> Policy | None:
    """The policy of this name; None for messages that are deflated throughout."""
    if name not in POLICIES:
        raise ConfigError("no such policy", policy=name, choose_from=list(POLICIES))
    return POLICIES[name](topology, expected, settings or {})


def permutations(name: str, quick: bool = False) -> list[dict[str, Any]]:
    """The settings to try; one that is empty where a policy needs none."""
    grid = _GRIDS.get(name, [{}])
    return [grid[place] for place in _QUICK[name]] if quick and name in _QUICK else grid
