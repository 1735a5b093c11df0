"""Publisher and subscriber ends of a link: events in, frames out, and back. No I/O."""

from thinwire.link import checkpoints
from thinwire.link.config import LinkConfig
from thinwire.link.counts import Counts
from thinwire.link.deliveries import Audit, Delivery, Missed, Watermark
from thinwire.link.publisher import Publisher
from thinwire.link.subscriber import State, Subscriber

__all__ = [
    "Audit",
    "Counts",
    "Delivery",
    "LinkConfig",
    "Missed",
    "Publisher",
    "State",
    "Subscriber",
    "Watermark",
    "checkpoints",
]
