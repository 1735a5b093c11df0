"""Policies by name: which one looks after a topic's dictionaries.

>>> sorted(NAMED)
['adaptive', 'fixed rate', 'ours', 'predict', 'single']
>>> policy("ours", Topology(10, 2)).topology.receivers
12
"""

from __future__ import annotations

from thinwire.dictionaries.accounting import Topology
from thinwire.dictionaries.maintenance import Adaptive, CostBased, FixedRate, Policy, Predict, SingleDict
from thinwire.errors import ConfigError

NAMED: dict[str, type[SingleDict] | type[FixedRate] | type[Adaptive] | type[Predict] | type[CostBased]] = {
    kind.name: kind for kind in (SingleDict, FixedRate, Adaptive, Predict, CostBased)
}


def policy(name: str, topology: Topology) -> Policy:
    """A policy at its beginning."""
    if name not in NAMED:
        raise ConfigError("no such policy", policy=name, choose_from=sorted(NAMED))
    kind = NAMED[name]
    return kind(topology) if kind is CostBased or kind is Predict else kind()
