"""Dictionary policies by name.

>>> "ours" in policy_names()
True
>>> create_policy("ours", Topology(10, 2)).topology.receivers
12
"""

from __future__ import annotations

from collections.abc import Callable

from thinwire.dictionaries.policies import CostBased, DictionaryPolicy
from thinwire.dictionaries.topology import Topology
from thinwire.errors import ConfigError
from thinwire.lazy import load_extensions

PolicyFactory = Callable[[Topology, float], DictionaryPolicy]
"""(topology, budget) -> a policy without messages; budget: CPU time to pack a message as a multiple of deflate"""

FAST = 0.25
"""default budget of the running system: a few times faster than deflate"""

EXTENSIONS = "thinwire.policies"
"""entry point group of distributions whose modules register further policies"""

_FACTORIES: dict[str, PolicyFactory] = {}


def register_policy(name: str, create: PolicyFactory) -> None:
    """Make a policy available under a name, for example to the dictionary trainer."""
    if _FACTORIES.setdefault(name, create) is not create:
        raise ConfigError("another policy has this name", policy=name)


def policy_names() -> list[str]:
    """Return the names of all registered policies, sorted."""
    return sorted(_FACTORIES)


def create_policy(name: str, topology: Topology, budget: float = FAST) -> DictionaryPolicy:
    """Create a policy; raise `ConfigError` for an unknown name."""
    if name not in _FACTORIES:
        load_extensions(EXTENSIONS)
    if name not in _FACTORIES:
        raise ConfigError("unknown dictionary policy", policy=name, choose_from=policy_names())
    return _FACTORIES[name](topology, budget)


register_policy(CostBased.name, lambda topology, budget: CostBased(topology, budget=budget))
