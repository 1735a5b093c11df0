"""Brokers: nodes of the network, in each region as many as its subscriptions ask for."""

from __future__ import annotations

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.workload.places.network_nodes_locations import Locations
from thinwire_lab.workload.places.network_nodes_nodes import Nodes
from thinwire_lab.workload.random_rows import quotas
from thinwire_lab.workload.random_rows_randomness import Floats, uniforms

MAX_BROKERS = 1_000_000


def place_brokers(nodes: Nodes, mix: Floats, count: int, seed: int, locations: Locations) -> Nodes:
    """So many brokers, in proportion to the mix of regions, at nodes drawn without putting any back.

    Where a region has fewer nodes than brokers, the others are placed as its subscribers are.
    """
    if not 0 <= count <= MAX_BROKERS:
        raise ConfigError("too many brokers, or fewer than none", brokers=count, lowest=0, highest=MAX_BROKERS)
    due = quotas(mix, count)
    region = np.repeat(np.arange(due.size), due)
    points = [_placed(nodes, number, int(wanted), seed, locations) for number, wanted in enumerate(due)]
    return Nodes(nodes.regions, region, np.concatenate(points))


def _placed(nodes: Nodes, region: int, wanted: int, seed: int, locations: Locations) -> Floats:
    here = nodes.within(region)
    order = np.argsort(uniforms(seed, f"broker: {region}", np.arange(len(here))), kind="stable")[:wanted]
    extra = np.arange(wanted - order.size)
    drawn = locations.draw(seed, extra, np.full(extra.size, region), purpose=f"broker: {region}")
    return np.concatenate([here[order], drawn])
