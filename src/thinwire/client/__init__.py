"""What users call: `connect`, publishers, subscriptions."""

from thinwire.client.bus import Bus, connect
from thinwire.client.notices import Away, Coarser, Gone, Notice, Skewed, Unreadable, Unserved
from thinwire.client.publication import TopicPublisher
from thinwire.client.subscription import Subscription
from thinwire.client.watch_hits import Hit
from thinwire.client.watches import Hits

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
