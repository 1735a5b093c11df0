"""Pub/sub that sends less.

>>> import thinwire as tw
>>> rooms = tw.Schema("rooms", [tw.Property("room", "string", "dimension"), tw.Property("t", "number", step="0.1")])
>>> tw.Publisher(rooms, tw.LinkConfig(demand=tw.Demand(tolerance={"t": 0.5}))).config.format
'compact'
"""

from typing import TYPE_CHECKING

from thinwire.contents import contents

if TYPE_CHECKING:
    from thinwire.client import (
        Away,
        Bus,
        Coarser,
        Gone,
        Hit,
        Hits,
        Skewed,
        Subscription,
        TopicPublisher,
        Unreadable,
        Unserved,
        connect,
    )
    from thinwire.errors import ThinwireError
    from thinwire.events import Event, Property, Schema, from_class, from_turtle, infer, opaque, to_turtle
    from thinwire.link import Audit, LinkConfig, Missed, Publisher, Subscriber, Watermark
    from thinwire.reduction import Demand
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "client": "Away Bus Coarser Gone Hit Hits Skewed Subscription TopicPublisher Unreadable Unserved connect",
            "errors": "ThinwireError",
            "events": "Event Property Schema from_class from_turtle infer opaque to_turtle",
            "link": "Audit LinkConfig Missed Publisher Subscriber Watermark",
            "reduction": "Demand",
        },
    )

__all__ = [
    "Audit",
    "Away",
    "Bus",
    "Coarser",
    "Demand",
    "Event",
    "Gone",
    "Hit",
    "Hits",
    "LinkConfig",
    "Missed",
    "Property",
    "Publisher",
    "Schema",
    "Skewed",
    "Subscriber",
    "Subscription",
    "ThinwireError",
    "TopicPublisher",
    "Unreadable",
    "Unserved",
    "Watermark",
    "connect",
    "from_class",
    "from_turtle",
    "infer",
    "opaque",
    "to_turtle",
]
