"""Chord: a ring of nodes, the ways between them, and messages to many of them at once.

>>> ring = Ring.random(100, seed=1)
>>> way = route(ring, 3, ring.ids[70])
>>> way[0], way[-1], len(way) - 1 <= ring.bits
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
