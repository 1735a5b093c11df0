"""NATS with JetStream as a broker. The protocol is implemented here; only nkey files need the extra `nats`.

broker = await connect("nats://localhost:4222")
"""

from thinwire.brokers.nats.broker import NatsBroker, connect
from thinwire.brokers.nats.bucket import NatsBucket
from thinwire.brokers.nats.options import NatsOptions, Tls

__all__ = ["NatsBroker", "NatsBucket", "NatsOptions", "Tls", "connect"]
