"""NATS with JetStream as a broker; needs the extra `nats`.

broker = await connect("nats://localhost:4222")
"""

from thinwire.errors import MissingExtra

try:
    import nats as _nats  # noqa: F401
except ImportError:
    raise MissingExtra("NATS needs the package nats-py", extra="nats") from None

from thinwire.brokers.nats.broker import NatsBroker, connect
from thinwire.brokers.nats.bucket import NatsBucket
from thinwire.brokers.nats.options import NatsOptions, Tls

__all__ = ["NatsBroker", "NatsBucket", "NatsOptions", "Tls", "connect"]
