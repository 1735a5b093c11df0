"""Values and streams: StreamEncoder turns events into frames, StreamDecoder turns frames into events. No I/O."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.codec.deliveries import Audit, Delivery, EventsMissed, Watermark
    from thinwire.codec.demand import Demand
    from thinwire.codec.expander import Expander
    from thinwire.codec.reducer import Introduction, Reducer
    from thinwire.codec.rules import Rule, RuleSet, resolve
    from thinwire.codec.stream_config import Counts, StreamConfig
    from thinwire.codec.stream_decoder import State, StreamDecoder
    from thinwire.codec.stream_encoder import StreamEncoder
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "deliveries": "Audit Delivery EventsMissed Watermark",
            "demand": "Demand",
            "expander": "Expander",
            "reducer": "Introduction Reducer",
            "rules": "Rule RuleSet resolve",
            "stream_config": "Counts StreamConfig",
            "stream_decoder": "State StreamDecoder",
            "stream_encoder": "StreamEncoder",
        },
    )

__all__ = [
    "Audit",
    "Counts",
    "Delivery",
    "Demand",
    "EventsMissed",
    "Expander",
    "Introduction",
    "Reducer",
    "Rule",
    "RuleSet",
    "State",
    "StreamConfig",
    "StreamDecoder",
    "StreamEncoder",
    "Watermark",
    "resolve",
]
