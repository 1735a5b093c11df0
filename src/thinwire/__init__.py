"""Pub/sub that sends less.

>>> import thinwire as tw
>>> rooms = tw.Schema("rooms", [tw.Property("room", "string", "dimension"), tw.Property("t", "number", step="0.1")])
>>> tw.Publisher(rooms, tw.LinkConfig(demand=tw.Demand(tolerance={"t": 0.5}))).config.format
'compact'
"""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.client.bus import Bus, connect
    from thinwire.client.notices import Away, Coarser, Gone, Skewed, Unreadable, Unserved
    from thinwire.client.publisher import TopicPublisher
    from thinwire.client.subscription import Subscription
    from thinwire.client.watch import Hits
    from thinwire.client.watch_hit import Hit
    from thinwire.codec.deliveries import Audit, Missed, Watermark
    from thinwire.codec.demand import Demand
    from thinwire.codec.stream_config import LinkConfig
    from thinwire.codec.stream_decoder import Subscriber
    from thinwire.codec.stream_encoder import Publisher
    from thinwire.errors import ThinwireError
    from thinwire.schema.class_schema import from_class
    from thinwire.schema.event import Event
    from thinwire.schema.inference import infer
    from thinwire.schema.property import Property
    from thinwire.schema.schema import Schema, opaque
    from thinwire.schema.turtle import from_turtle, to_turtle
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "client.bus": "Bus connect",
            "client.notices": "Away Coarser Gone Skewed Unreadable Unserved",
            "client.publisher": "TopicPublisher",
            "client.subscription": "Subscription",
            "client.watch": "Hits",
            "client.watch_hit": "Hit",
            "codec.deliveries": "Audit Missed Watermark",
            "codec.demand": "Demand",
            "codec.stream_config": "LinkConfig",
            "codec.stream_decoder": "Subscriber",
            "codec.stream_encoder": "Publisher",
            "errors": "ThinwireError",
            "schema.class_schema": "from_class",
            "schema.event": "Event",
            "schema.inference": "infer",
            "schema.property": "Property",
            "schema.schema": "Schema opaque",
            "schema.turtle": "from_turtle to_turtle",
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
