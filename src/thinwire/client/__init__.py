"""What users call: `connect`, publishers, subscriptions."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.client.bus import Bus, connect
    from thinwire.client.notices import (
        BoundExceeded,
        BrokerUnreachable,
        ClockSkew,
        MessageUnreadable,
        Notice,
        NoTranslator,
        PublisherLost,
    )
    from thinwire.client.publisher import Publisher
    from thinwire.client.subscription import Subscription
    from thinwire.client.watch import Watch
    from thinwire.client.watch_hit import Hit
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "bus": "Bus connect",
            "notices": "BoundExceeded BrokerUnreachable ClockSkew MessageUnreadable NoTranslator Notice PublisherLost",
            "publisher": "Publisher",
            "subscription": "Subscription",
            "watch": "Watch",
            "watch_hit": "Hit",
        },
    )

__all__ = [
    "BoundExceeded",
    "BrokerUnreachable",
    "Bus",
    "ClockSkew",
    "Hit",
    "MessageUnreadable",
    "NoTranslator",
    "Notice",
    "Publisher",
    "PublisherLost",
    "Subscription",
    "Watch",
    "connect",
]
