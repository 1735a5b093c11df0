"""Sources, subscribers and a scheme on a ring: what it all costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.chord.ring import Numbers, Ring
from thinwire_lab.overlay_sim.dissemination.cost_model import PINNED, Model
from thinwire_lab.overlay_sim.dissemination.cost_model_outcome import Costs, Tally, costs
from thinwire_lab.overlay_sim.dissemination.schemes_schemes import SCHEMES
from thinwire_lab.overlay_sim.dissemination.site_traffic import spread
from thinwire_lab.overlay_sim.dissemination.site_traffic_delivering import Delivering, delivering
from thinwire_lab.overlay_sim.dissemination.site_traffic_site import Demands, Site
from thinwire_lab.overlay_sim.dissemination.site_traffic_traffic import Traffic


def simulate(
    nodes: int,
    streams: Mapping[str, Numbers],
    subscriptions: int,
    schemes: Iterable[str] = tuple(SCHEMES),
    seed: int = 1,
    model: Model = PINNED,
) -> dict[str, Costs]:
    """Sources by name and their values, so many subscriptions in all, on a random ring; the costs of each scheme.

    >>> walk = np.cumsum(np.random.default_rng(1).integers(-3, 4, 200))
    >>> found = simulate(100, {"walk": walk}, 600, ["SF", "SRI"])
    >>> found["SRI"].maintenance < found["SF"].maintenance / 5, found["SRI"].delivery == found["SF"].delivery
    (True, True)
    """
    chosen = _checked(schemes, streams, subscriptions)
    ring = Ring.random(nodes, seed, model.bits)
    tallies = {name: Tally(np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64)) for name in chosen}
    for site, values in zip(sites(ring, list(streams), subscriptions, seed, model), streams.values(), strict=True):
        trees: dict[bytes, Delivering] = {}
        for name, tally in tallies.items():
            traffic = SCHEMES[name](site, values)
            # Most schemes keep thresholds at the same places, and then deliver by the same trees.
            kept = traffic.places.tobytes()
            trees[kept] = trees.get(kept) or delivering(site, traffic.places)
            add(tally, site, traffic, trees[kept], len(values) - 1)
    return {name: costs(tally) for name, tally in tallies.items()}


def sites(ring: Ring, names: Sequence[str], subscriptions: int, seed: int, model: Model = PINNED) -> list[Site]:
    """The sources on the ring, subscriptions dealt out evenly; the first ones have what is left over."""
    rng = np.random.default_rng([seed, len(ring)])
    shares = [subscriptions // len(names) + (n < subscriptions % len(names)) for n in range(len(names))]
    return [
        Site.at(ring, name, int(rng.integers(len(ring))), Demands.random(ring, share, rng, model.largest), model)
        for name, share in zip(names, shares, strict=True)
    ]


def add(tally: Tally, site: Site, traffic: Traffic, trees: Delivering, events: int) -> None:
    """Count a source."""
    hosts = np.concatenate([[site.publisher], site.processors])
    tally.events += events
    tally.subscriptions += len(site.demands.nodes)
    tally.registered += trees.registered + traffic.established
    tally.maintained += spread(site.routes, traffic.contacts, tally.loads) + int(traffic.replies.sum())
    tally.delivered += int(traffic.delivered @ trees.messages)
    tally.deliveries += int(traffic.delivered @ trees.subscribers)
    tally.hops += int(traffic.delivered @ (trees.hops + traffic.reached(site) * trees.subscribers))
    tally.length += int(traffic.delivered.sum())
    tally.loads += trees.loads(traffic.delivered, len(tally.loads))
    np.add.at(tally.loads, hosts, traffic.replies)
    np.add.at(tally.state, hosts, traffic.entries)
    np.add.at(tally.state, site.processors[traffic.places[site.ranks(site.demands.thresholds)]], 1)


def _checked(schemes: Iterable[str], streams: Mapping[str, Numbers], subscriptions: int) -> list[str]:
    chosen = list(schemes)
    if unknown := [name for name in chosen if name not in SCHEMES]:
        raise ConfigError("no such scheme", scheme=unknown[0], choose_from=list(SCHEMES))
    if not streams or any(len(values) < 2 for values in streams.values()):
        raise ConfigError("a run needs sources, each with two values at least", sources=len(streams))
    if subscriptions < len(streams):
        raise ConfigError("outside its limits", field="subscriptions", value=subscriptions, lowest=len(streams))
    return chosen
