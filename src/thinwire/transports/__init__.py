"""Subjects and bytes, no meaning: what carries messages, beginning with a broker in memory that can misbehave."""

from thinwire.transports.base import Capabilities, Inbox, Message, Transport
from thinwire.transports.faults import Faults
from thinwire.transports.limited_memory import LimitedClient
from thinwire.transports.memory import MemoryBroker, MemoryInbox
from thinwire.transports.subjects import matches

__all__ = [
    "Capabilities",
    "Faults",
    "Inbox",
    "LimitedClient",
    "MemoryBroker",
    "MemoryInbox",
    "Message",
    "Transport",
    "matches",
]
