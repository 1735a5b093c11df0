"""What a scheme makes of a stream: messages between hosts, deliveries, and what has to be remembered where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from thinwire_lab.overlay_sim.chord.ring import Numbers
from thinwire_lab.overlay_sim.dissemination.site_traffic import Contacts
from thinwire_lab.overlay_sim.dissemination.site_traffic_site import Site

Chains = Sequence[tuple[int, ...]]
"""for each threshold the places of some processors"""


class Traffic(NamedTuple):
    """Hosts are 0 for the publisher and j + 1 for processor j.

    contacts: multicasts between hosts
    replies: messages that a host gets straight from another
    delivered: how often each threshold delivered
    chains: the processors that an event goes through on its way to each threshold, the threshold's own last
    entries: filters, intervals and adverts kept by each host
    established: messages that set up what the scheme needs beside the subscriptions themselves
    """

    contacts: Contacts
    replies: Numbers
    delivered: Numbers
    chains: Chains
    entries: Numbers
    established: int

    @property
    def places(self) -> Numbers:
        """Where each threshold is kept."""
        return np.array([chain[-1] for chain in self.chains], dtype=np.int64)

    def reached(self, site: Site) -> Numbers:
        """Hops of an event from the publisher to the processor of each threshold."""
        ways = ([(0, chain[0]), *((a + 1, b) for a, b in pairwise(chain))] for chain in self.chains)
        return np.array([sum(site.hops[a, b] for a, b in way) for way in ways], dtype=np.int64)


Scheme = Callable[[Site, Numbers], Traffic]
"""from a source and its values to its traffic"""


def directly(site: Site) -> Chains:
    """Straight from the publisher to every threshold."""
    return [(int(place),) for place in site.places]


def no_replies(site: Site) -> Numbers:
    """Nobody answers."""
    return np.zeros(len(site.processors) + 1, dtype=np.int64)


def kept_by_processors(site: Site, places: Numbers) -> Numbers:
    """One entry for each place that is named."""
    return np.bincount(places + 1, minlength=len(site.processors) + 1).astype(np.int64)
