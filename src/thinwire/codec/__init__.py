"""Publisher and subscriber ends of a link: events in, frames out, and back. No I/O.

Reduce events to what must travel, and expand them again: two ends kept in lock-step.
"""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.codec.deliveries import Audit, Delivery, Missed, Watermark
    from thinwire.codec.demand import Demand
    from thinwire.codec.expander import Expander
    from thinwire.codec.reducer import Introduction, Reducer
    from thinwire.codec.rules import Rule, RuleSet, resolve
    from thinwire.codec.stream_config import Counts, LinkConfig
    from thinwire.codec.stream_decoder import State, Subscriber
    from thinwire.codec.stream_encoder import Publisher
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "deliveries": "Audit Delivery Missed Watermark",
            "demand": "Demand",
            "expander": "Expander",
            "reducer": "Introduction Reducer",
            "rules": "Rule RuleSet resolve",
            "stream_config": "Counts LinkConfig",
            "stream_decoder": "State Subscriber",
            "stream_encoder": "Publisher",
        },
    )

__all__ = [
    "Audit",
    "Counts",
    "Delivery",
    "Demand",
    "Expander",
    "Introduction",
    "LinkConfig",
    "Missed",
    "Publisher",
    "Reducer",
    "Rule",
    "RuleSet",
    "State",
    "Subscriber",
    "Watermark",
    "resolve",
]
