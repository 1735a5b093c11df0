"""Policies by name: which one looks after a topic's dictionaries.

>>> sorted(NAMED)
['adaptive', 'fixed rate', 'ours', 'predict', 'single']
>>> policy("ours", Topology(10, 2)).topology.receivers
12
"""

from __future__ import annotations

from thinwire.dictionaries.byte_account import Topology
from thinwire.dictionaries.policies import Adaptive, CostBased, FixedRate, Policy, Predict, SingleDict
from thinwire.errors import ConfigError

NAMED: dict[str, type[SingleDict] | type[FixedRate] | type[Adaptive] | type[Predict] | type[CostBased]] = {
    kind.name: kind for kind in (SingleDict, FixedRate, Adaptive, Predict, CostBased)
}
FAST = 0.25
"""in the running system messages are packed a few times faster than deflate would, unless somebody wants fewer bytes"""


def policy(name: str, topology: Topology, budget: float = FAST) -> Policy:
    """A policy at its beginning; `budget`: CPU time to pack, in deflates, for those that choose by it."""
    if name not in NAMED:
        raise ConfigError("no such policy", policy=name, choose_from=sorted(NAMED))
    kind = NAMED[name]
    if kind is CostBased:
        return kind(topology, budget=budget)
    return kind(topology) if kind is Predict else kind()
