"""Publish/subscribe over message brokers that sends less.

>>> import thinwire as tw
>>> rooms = tw.Schema("rooms", [tw.Property("room", "string", "dimension"), tw.Property("t", "number", step="0.1")])
>>> tw.StreamEncoder(rooms, tw.StreamConfig(demand=tw.Demand(tolerance={"t": 0.5}))).config.format
'compact'
"""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.client.bus import Bus, connect
    from thinwire.client.notices import (
        BoundExceeded,
        BrokerUnreachable,
        ClockSkew,
        MessageUnreadable,
        NoTranslator,
        PublisherLost,
    )
    from thinwire.client.publisher import Publisher
    from thinwire.client.subscription import Subscription
    from thinwire.client.watch import Watch
    from thinwire.client.watch_hit import Hit
    from thinwire.codec.deliveries import Audit, EventsMissed, Watermark
    from thinwire.codec.demand import Demand
    from thinwire.codec.stream_config import StreamConfig
    from thinwire.codec.stream_decoder import StreamDecoder
    from thinwire.codec.stream_encoder import StreamEncoder
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
            "client.notices": "BoundExceeded BrokerUnreachable ClockSkew MessageUnreadable NoTranslator PublisherLost",
            "client.publisher": "Publisher",
            "client.subscription": "Subscription",
            "client.watch": "Watch",
            "client.watch_hit": "Hit",
            "codec.deliveries": "Audit EventsMissed Watermark",
            "codec.demand": "Demand",
            "codec.stream_config": "StreamConfig",
            "codec.stream_decoder": "StreamDecoder",
            "codec.stream_encoder": "StreamEncoder",
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
    "BoundExceeded",
    "BrokerUnreachable",
    "Bus",
    "ClockSkew",
    "Demand",
    "Event",
    "EventsMissed",
    "Hit",
    "MessageUnreadable",
    "NoTranslator",
    "Property",
    "Publisher",
    "PublisherLost",
    "Schema",
    "StreamConfig",
    "StreamDecoder",
    "StreamEncoder",
    "Subscription",
    "ThinwireError",
    "Watch",
    "Watermark",
    "connect",
    "from_class",
    "from_turtle",
    "infer",
    "opaque",
    "to_turtle",
]
