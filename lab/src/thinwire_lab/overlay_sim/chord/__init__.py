"""Chord: a ring of nodes, routes between them, and multicasts.

>>> ring = Ring.random(100, seed=1)
>>> path = route(ring, 3, ring.ids[70])
>>> path[0], path[-1], len(path) - 1 <= ring.bits
(3, 70, True)
"""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire_lab.overlay_sim.chord.key_handover import HandoverEvent, Keeper, Numbering, State
    from thinwire_lab.overlay_sim.chord.ring import Ring, Routes, hops, key_of, route, routes
    from thinwire_lab.overlay_sim.chord.ring_multicast import MulticastMessage, multicast, owners, range_multicast
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "key_handover": "HandoverEvent Keeper Numbering State",
            "ring": "Ring Routes hops key_of route routes",
            "ring_multicast": "MulticastMessage multicast owners range_multicast",
        },
    )

__all__ = [
    "HandoverEvent",
    "Keeper",
    "MulticastMessage",
    "Numbering",
    "Ring",
    "Routes",
    "State",
    "hops",
    "key_of",
    "multicast",
    "owners",
    "range_multicast",
    "route",
    "routes",
]
