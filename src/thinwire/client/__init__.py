"""What users call: `connect`, publishers, subscriptions."""

from thinwire.client.bus import Bus, connect
from thinwire.client.notices import Away, Coarser, Notice, Skewed, Unreadable, Unserved
from thinwire.client.publication import TopicPublisher
from thinwire.client.subscription import Subscription

__all__ = [
    "Away",
    "Bus",
    "Coarser",
    "Notice",
    "Skewed",
    "Subscription",
    "TopicPublisher",
    "Unreadable",
    "Unserved",
    "connect",
]
