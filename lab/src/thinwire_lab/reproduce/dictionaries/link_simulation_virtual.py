"""A cell in virtual time.

>>> cell = Cell(publishers=1, subscribers=1, limits="bandwidth=1mbit,delay=50ms", messages=100)
>>> from thinwire_lab.reproduce.dictionaries.link_parties import TWEETS
>>> plain, packed = (simulate(cell, TWEETS[method]) for method in ("plain", "dictionary"))
>>> round(plain.receiving / packed.receiving, 2)
1.19
"""

from __future__ import annotations

from thinwire.brokers.link_limits_limits import read_limits
from thinwire.brokers.protocol_overhead import JetStream
from thinwire_lab.overlay_sim.discrete_events import Kernel
from thinwire_lab.reproduce.dictionaries.link_parties import Load
from thinwire_lab.reproduce.dictionaries.link_parties_parties import Receiver, Relay, Sender, Weights
from thinwire_lab.reproduce.dictionaries.link_simulation import Cell, Outcome

LOG = "limited"
_NAME = "abcde"
_BROKER = JetStream(stream=LOG, consumer=_NAME, sequence=1000, inbox="_INBOX.abcdefgh.100")
_SEEDS = 1000
"""publishers or subscribers that have seeds of their own"""


def subject(publisher: int, lane: int) -> str:
    """Where a publisher's messages go; those that are on their way at once have subjects of their own."""
    return f"{LOG}.{publisher}.{lane}"


def simulate(cell: Cell, load: Load, *, store: float = 0.0, disk: float | None = None, seed: int = 0) -> Outcome:
    """What would come of a cell.

    store: seconds of the broker for each message; disk: bytes a second that it can store; None for as many as come
    """
    world, limits = Kernel(), read_limits(cell.limits)
    relay = Relay(world, weights(load, store, disk))
    first = 2 * _SEEDS * seed
    senders = [
        Sender(world, relay, limits, sizes, window=cell.window, pace=cell.pace, seed=first + place)
        for place, sizes in enumerate(cell.dealt(load.sizes))
    ]
    receivers = [
        Receiver(world, relay, limits, window=cell.ahead, seed=first + _SEEDS + place)
        for place in range(cell.subscribers)
    ]
    for sender in senders:
        sender.begin()
    world.run()
    return Outcome.of(
        [sender.finished for sender in senders],
        [receiver.finished for receiver in receivers],
        [seconds for sender in senders for seconds in sender.latencies],
        [seconds for receiver in receivers for seconds in receiver.latencies],
    )


def weights(load: Load, store: float = 0.0, disk: float | None = None) -> Weights:
    """What NATS puts around a message of this load; its subscribers acknowledge many at once, in one short line."""
    payload = round(load.mean)
    traffic = _BROKER.traffic(subject(0, 0), payload)
    acknowledgement = len(f"PUB $JS.ACK.{LOG}.{_NAME}.1.1000.1000.0.0 0\r\n\r\n")
    return Weights(
        published=traffic.published - payload,
        stored=traffic.stored,
        delivered=traffic.delivered - payload,
        acknowledged=acknowledgement,
        pack=load.pack,
        unpack=load.unpack,
        store=store,
        disk=disk,
    )
