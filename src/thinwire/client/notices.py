"""What a subscriber is told beside events.

Keeping an eye on a subscription: are bounds as asked, do clocks agree, how far is everything complete?
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from thinwire.brokers.protocol import Stored
from thinwire.client.subscription_request import SubscriptionRequest
from thinwire.codec import Audit, EventsMissed, State, StreamDecoder, Watermark
from thinwire.schema import Event
from thinwire.topics.names import publisher_in
from thinwire.topics.topic import TopicMetadata


class BoundExceeded(NamedTuple):
    """A publisher's values may be further off than was asked: the bound says how far, until it is reconfigured."""

    publisher: str
    property: str
    bound: float | None
    tolerance: float


class ClockSkew(NamedTuple):
    """A publisher's clock and the broker's differ; watermarks and latencies of this publisher are off by as much."""

    publisher: str
    seconds: float


class MessageUnreadable(NamedTuple):
    """A message of the log that no link could read; the links it belongs to start again from a key frame."""

    publisher: str
    offset: int
    reason: str


class BrokerUnreachable(NamedTuple):
    """The broker has not been reached for so many seconds; reading goes on when it is back."""

    seconds: float


class NoTranslator(NamedTuple):
    """No translator serves what was asked: the log does, and nothing is lost, but no bandwidth is saved on the way."""

    reason: str


class PublisherLost(NamedTuple):
    """A publisher has left, or has not been heard for so long: a watch keeps its values and waits for it no more."""

    topic: str
    publisher: str
    seconds: float


Notice = (
    BrokerUnreachable
    | EventsMissed
    | Watermark
    | Audit
    | BoundExceeded
    | ClockSkew
    | MessageUnreadable
    | NoTranslator
    | PublisherLost
)


MAX_SKEW = 5.0
"""seconds by which a publisher's clock may differ from the broker's before it is told"""
AWAY, AWAY_AGAIN = 5.0, 30.0
"""seconds without a connection before it is told, and before it is told again"""
FINER = (
    "%s: the log is finer than the tolerance asked for, and no translator serves a coarser one: "
    "the promise holds, but no bandwidth is saved on the way to this subscriber"
)

_log = logging.getLogger("thinwire.client")


class OutageMonitor:
    """Notices that the broker is away, and says so after a while, again and again."""

    def __init__(self, url: str, tell: Callable[[Notice], None]) -> None:
        self._url = url
        self._tell = tell
        self._since: float | None = None
        self._said = 0.0

    def note(self, connected: bool, now: float) -> None:
        """Look whether the connection stands."""
        if connected:
            self._since = None
            return
        if self._since is None:
            self._since = self._said = now
        if now - self._said >= (AWAY if self._said == self._since else AWAY_AGAIN):
            self._said = now
            gone = now - self._since
            _log.warning("%s has been away for %.0f s; reading goes on when it is back", self._url, gone)
            self._tell(BrokerUnreachable(gone))


class SubscriptionMonitor:
    """What one subscription notices about its publishers."""

    def __init__(self, asked: SubscriptionRequest, tell: Callable[[Notice], None]) -> None:
        self._asked = asked
        self._tell = tell
        self._marks: dict[str, float] = {}
        self._stored: dict[str, float] = {}
        self._skewed: set[str] = set()
        self._checked: dict[str, tuple[int, int]] = {}
        self._said_finer = False
        self._seen: dict[tuple[object, ...], int] = {}

    def stored_at(self, stored: Stored) -> None:
        """The broker stored a message of a publisher at this time."""
        self._stored[publisher_in(stored.subject)] = stored.time

    def marked(self, mark: Watermark, *, on_log: bool = True) -> None:
        """A publisher is complete up to a time by its own clock; does that agree with the broker's?

        on_log: did it say so itself, just before it was stored? A translator may say it again much later.
        """
        self._marks[mark.publisher] = mark.time
        if not on_log:
            return
        ahead = mark.time - self._stored.get(mark.publisher, mark.time)
        if abs(ahead) <= MAX_SKEW:
            self._skewed.discard(mark.publisher)
        elif mark.publisher not in self._skewed:
            self._skewed.add(mark.publisher)
            _log.warning("the clock of publisher %s is %.1f s off the broker's: set it (NTP)", mark.publisher, ahead)
            self._tell(ClockSkew(mark.publisher, ahead))

    def watermark(self, links: Mapping[str, StreamDecoder]) -> float | None:
        """The time up to which every publisher heard of is complete."""
        if not links or any(name not in self._marks for name in links):
            return None
        return min(self._marks[name] for name in links)

    def start_over(self) -> None:
        """Events come another way from now on: bounds are looked at anew."""
        self._checked.clear()

    def check_bounds(self, links: Mapping[str, StreamDecoder], topic: TopicMetadata, *, on_log: bool = True) -> None:
        """Once per configuration of a publisher: say where its bounds are above, or below, what was asked.

        on_log: do the links read what publishers write, and not what a translator made of it?
        """
        for name, link in links.items():
            version = (link.incarnation or 0, link.config_version or 0)
            if link.state is State.READY and self._checked.get(name) != version:
                self._checked[name] = version
                self._compare(name, link, topic, on_log)

    def expected(self, link: StreamDecoder) -> list[Event]:
        """What is expected next of the sources that said nothing since the last tick; nothing is claimed for these."""
        found: list[Event] = []
        for event in link.peek() if link.state is State.READY else ():
            key = (event.publisher, event.incarnation, *event.source)
            if self._seen.get(key) == event.ordinal:
                found.append(event)
            self._seen[key] = event.ordinal
        return found

    def _compare(self, name: str, link: StreamDecoder, topic: TopicMetadata, on_log: bool) -> None:
        tolerances = self._asked.tolerances(topic.schema)
        for property, tolerance in tolerances.items():
            bound = link.bound.get(property, 0.0)
            if bound is None or bound > tolerance:
                self._tell(BoundExceeded(name, property, bound, tolerance))
        finer = on_log and any(
            tolerance > (link.bound.get(property) or 0.0) for property, tolerance in tolerances.items()
        )
        if finer and not self._said_finer:
            self._said_finer = True
            _log.info(FINER, topic.name) if topic.managed else _log.warning(FINER, topic.name)
