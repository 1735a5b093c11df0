"""Safe-region tree: exact conformance if no single node can store all thresholds of a source.

Every leaf stores some thresholds. Each node advertises to its parent the interval in which no threshold below it fires,
so an event goes only to nodes where a threshold may fire. Messages in flight are never assumed to have arrived.

>>> tree = Tree([3, 8, 20, 40], value=0, seed=1, fan_out=2)
>>> for value in (4, 9, 30):
...     tree.publish(value)
>>> tree.wait_until_idle()
>>> tree.delivered[3], tree.delivered[8], tree.delivered[40]
([(1, 4), (2, 9), (3, 30)], [(2, 9), (3, 30)], [])
"""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire_lab.overlay_sim.safe_region.safe_region_tree import (
        EVERYTHING,
        Advert,
        Event,
        Interval,
        Join,
        Leaf,
        Leave,
        Network,
        Node,
        Tree,
        common,
    )
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "safe_region_tree": "Advert EVERYTHING Event Interval Join Leaf Leave Network Node Tree common",
        },
    )

__all__ = [
    "EVERYTHING",
    "Advert",
    "Event",
    "Interval",
    "Join",
    "Leaf",
    "Leave",
    "Network",
    "Node",
    "Tree",
    "common",
]
