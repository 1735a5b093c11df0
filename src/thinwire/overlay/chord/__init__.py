"""Chord: a ring of nodes, the ways between them, and messages to many of them at once.

>>> ring = Ring.random(100, seed=1)
>>> way = route(ring, 3, ring.ids[70])
>>> way[0], way[-1], len(way) - 1 <= ring.bits
(3, 70, True)
"""

from thinwire.overlay.chord.handing import Event, Keeper, Numbering, State
from thinwire.overlay.chord.multicast import Message, multicast, owners, range_multicast
from thinwire.overlay.chord.ring import Ring, key_of
from thinwire.overlay.chord.routes import Routes, hops, route, routes

__all__ = [
    "Event",
    "Keeper",
    "Message",
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
