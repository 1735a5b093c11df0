"""What users call: `connect`, publishers, subscriptions."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.client.bus import Bus, connect
    from thinwire.client.notices import Away, Coarser, Gone, Notice, Skewed, Unreadable, Unserved
    from thinwire.client.publisher import TopicPublisher
    from thinwire.client.subscription import Subscription
    from thinwire.client.watch import Hits
    from thinwire.client.watch_hit import Hit
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "bus": "Bus connect",
            "notices": "Away Coarser Gone Notice Skewed Unreadable Unserved",
            "publisher": "TopicPublisher",
            "subscription": "Subscription",
            "watch": "Hits",
            "watch_hit": "Hit",
        },
    )

__all__ = [
    "Away",
    "Bus",
    "Coarser",
    "Gone",
    "Hit",
    "Hits",
    "Notice",
    "Skewed",
    "Subscription",
    "TopicPublisher",
    "Unreadable",
    "Unserved",
    "connect",
]
