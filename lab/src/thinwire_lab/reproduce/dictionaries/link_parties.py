"""Simulated senders, relay and receivers over limited links, and the loads of messages.

A load is the sizes of messages and the processor time to pack and unpack one, for one method: plain, deflate, or
dictionary.

>>> TWEETS["plain"].mean, TWEETS["dictionary"].mean
(3078.0, 478.0)

    Sender  --up-->  Relay  --down-->  Receiver         messages
            <-down--        <--up----                   acknowledgements, which use the links too

A sender has at most `window` unacknowledged messages, and a relay sends a receiver at most `window` unacknowledged
messages. No message is lost. Times are those of an `EventScheduler`.

>>> from thinwire_lab.live.link_limits import Limit
>>> scheduler = EventScheduler()
>>> line = Limits.both(Limit(bandwidth=1000, delay=0.05))
>>> relay = Relay(scheduler)
>>> sender, receiver = LinkSender(scheduler, relay, line, [100, 100]), LinkReceiver(scheduler, relay, line)
>>> sender.begin()
>>> _ = scheduler.run()
>>> round(sender.finished, 6), [round(seconds, 6) for seconds in receiver.latencies]
(0.4, [0.3, 0.3])
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from thinwire.dictionaries import Codec, codec_of, train
from thinwire.dictionaries.codecs import Deflate
from thinwire.errors import ConfigError, CorruptFrame
from thinwire_lab.live.link_limits import Limits, shapers
from thinwire_lab.overlay_sim.discrete_events import EventScheduler, Station

METHODS = ("plain", "deflate", "dictionary")
DICTIONARY = 16_384
"""maximum bytes of the dictionary"""


@dataclass(frozen=True)
class Load:
    """Sizes and processor time of messages that are packed with one method.

    sizes: bytes of each message; pack, unpack: processor seconds per message
    """

    sizes: tuple[int, ...]
    pack: float = 0.0
    unpack: float = 0.0

    @property
    def mean(self) -> float:
        """Mean size in bytes."""
        return sum(self.sizes) / len(self.sizes)


TWEETS = {
    "plain": Load((3078,)),
    "deflate": Load((1222,), pack=210e-6, unpack=83e-6),
    "dictionary": Load((478,), pack=615e-6, unpack=97e-6),
}
"""stream of the thesis for limited links: mean sizes of its table 6.2.1 (twitter-us), and minutes of table 5.4.4
(DEFLATE and PREDICT, publishers and one subscriber) divided by its 635,037 messages"""


class Plain:
    """Codec that leaves messages unchanged."""

    name = "plain"

    def pack(self, message: bytes) -> bytes:
        return message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        if len(packed) > limit:
            raise CorruptFrame("above the limit", length=len(packed), limit=limit)
        return packed


def codecs(training: Sequence[bytes]) -> dict[str, Codec]:
    """Return a codec for each method. The dictionary is trained on `training`, which must not be measured."""
    dictionary = train(training, min(DICTIONARY, sum(map(len, training)) // 10))
    if dictionary is None:
        raise ConfigError("too few messages to train a dictionary; provide more", messages=len(training))
    return {"plain": Plain(), "deflate": Deflate(), "dictionary": codec_of(dictionary)}


def measure_load(codec: Codec, messages: Sequence[bytes]) -> Load:
    """Return the sizes of messages with a codec, and the processor time per message on this machine."""
    started = time.process_time()
    packed = [codec.pack(message) for message in messages]
    packed_at = time.process_time()
    for message, small in zip(messages, packed, strict=True):
        codec.unpack(small, len(message))
    ended = time.process_time()
    each = 1 / len(messages)
    return Load(tuple(map(len, packed)), (packed_at - started) * each, (ended - packed_at) * each)


@dataclass(frozen=True)
class MessageOverhead:
    """Overhead of a message in bytes and seconds.

    publish_bytes, deliver_bytes: bytes around the payload on the sender's and on a receiver's link
    store_ack_bytes: bytes of the acknowledgement to the sender
    receive_ack_bytes: bytes of a receiver's acknowledgement, one for every `window // 4` messages
    pack_seconds, unpack_seconds: seconds of the sender and of a receiver
    store_seconds: seconds of the relay
    """

    publish_bytes: int = 0
    store_ack_bytes: int = 0
    deliver_bytes: int = 0
    receive_ack_bytes: int = 0
    pack_seconds: float = 0.0
    unpack_seconds: float = 0.0
    store_seconds: float = 0.0


class Relay:
    """A broker: stores every message, acknowledges it, and sends it to all receivers."""

    def __init__(self, scheduler: EventScheduler, overhead: MessageOverhead | None = None) -> None:
        self.scheduler, self.overhead = scheduler, overhead or MessageOverhead()
        self.receivers: list[LinkReceiver] = []
        self._station = Station()

    def receive(self, sender: LinkSender, size: int, started: float) -> None:
        """Receive a message that the sender started to pack at `started`."""
        stored = self._station.work(self.overhead.store_seconds, self.scheduler.now)
        self.scheduler.at(stored, self._deliver, sender, size, started)

    def _deliver(self, sender: LinkSender, size: int, started: float) -> None:
        sender.acknowledge(started)
        for receiver in self.receivers:
            receiver.enqueue(size, started)


class LinkSender:
    """Publishes messages of these sizes in order.

    window: maximum number of unacknowledged messages; pace: seconds between messages, 0 for no limit

    Attributes: `finished`, time of the last acknowledgement; `latencies`, seconds until each one.
    """

    def __init__(
        self,
        scheduler: EventScheduler,
        relay: Relay,
        limits: Limits,
        sizes: Sequence[int],
        *,
        window: int = 1,
        pace: float = 0.0,
        seed: int = 0,
    ) -> None:
        _check_window(window)
        self.window, self.pace = window, pace
        self.finished = 0.0
        self.latencies: list[float] = []
        self._scheduler, self._relay, self._sizes = scheduler, relay, sizes
        self._up, self._down = shapers(limits, seed)
        self._processor = Station()
        self._start = 0.0
        self._sent = 0
        self._is_scheduled = False
        """whether the next message is scheduled"""

    def begin(self) -> None:
        """Start sending."""
        self._start = self._scheduler.now
        self._resume()

    def acknowledge(self, started: float) -> None:
        """Send the acknowledgement of a message that this sender started to pack at `started`."""
        self._scheduler.at(
            self._down.send(self._relay.overhead.store_ack_bytes, self._scheduler.now), self._acknowledged, started
        )

    def _resume(self) -> None:
        while self._sent < len(self._sizes) and self._sent - len(self.latencies) < self.window:
            due = self._start + self._sent * self.pace
            if due > self._scheduler.now:
                self._wake_at(due)
                return
            self._send(due if self.pace else self._scheduler.now)

    def _send(self, started: float) -> None:
        size, overhead = self._sizes[self._sent], self._relay.overhead
        self._sent += 1
        packed = self._processor.work(overhead.pack_seconds, self._scheduler.now)
        self._scheduler.at(
            self._up.send(size + overhead.publish_bytes, packed), self._relay.receive, self, size, started
        )

    def _wake_at(self, due: float) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._scheduler.at(due, self._wake)

    def _wake(self) -> None:
        self._is_scheduled = False
        self._resume()

    def _acknowledged(self, started: float) -> None:
        self.finished = self._scheduler.now
        self.latencies.append(self.finished - started)
        self._resume()


class LinkReceiver:
    """Receives every message.

    window: maximum number of unacknowledged messages that the relay sends

    Attributes: `finished`, time at which the last message was unpacked; `latencies`, seconds from the sender.
    """

    def __init__(
        self, scheduler: EventScheduler, relay: Relay, limits: Limits, *, window: int = 256, seed: int = 0
    ) -> None:
        _check_window(window)
        self.window = window
        self.finished = 0.0
        self.latencies: list[float] = []
        self._scheduler, self._overhead = scheduler, relay.overhead
        self._up, self._down = shapers(limits, seed)
        self._processor = Station()
        self._waiting: deque[tuple[int, float]] = deque()
        self._unacknowledged = self._unpacked = 0
        relay.receivers.append(self)

    def enqueue(self, size: int, started: float) -> None:
        """Queue a message of the relay for this receiver."""
        self._waiting.append((size, started))
        self._send_waiting()

    def _send_waiting(self) -> None:
        while self._waiting and self._unacknowledged < self.window:
            size, started = self._waiting.popleft()
            self._unacknowledged += 1
            self._scheduler.at(
                self._down.send(size + self._overhead.deliver_bytes, self._scheduler.now), self._arrived, started
            )

    def _arrived(self, started: float) -> None:
        self.finished = self._processor.work(self._overhead.unpack_seconds, self._scheduler.now)
        self.latencies.append(self.finished - started)
        self._unpacked += 1
        if self._unpacked >= max(1, self.window // 4):
            self._scheduler.at(
                self._up.send(self._overhead.receive_ack_bytes, self.finished), self._release, self._unpacked
            )
            self._unpacked = 0

    def _release(self, messages: int) -> None:
        self._unacknowledged -= messages
        self._send_waiting()


def _check_window(window: int) -> None:
    if window < 1:
        raise ConfigError("must be 1 or more", window=window)
