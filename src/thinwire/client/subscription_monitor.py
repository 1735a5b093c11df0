"""Checks that lead to notices: bounds, clocks, and the connection to the broker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from thinwire.client.feed import FeedBatch
from thinwire.client.notices import BoundExceeded, BrokerUnreachable, ClockSkew, Notice
from thinwire.client.subscription_request import SubscriptionRequest
from thinwire.codec import EventsMissed, State, StreamDecoder, Watermark
from thinwire.schema import Event
from thinwire.topics.topic_metadata import TopicMetadata

MAX_SKEW = 5.0
"""seconds between the clocks of a publisher and the broker that are accepted"""
FIRST_NOTICE, NEXT_NOTICE = 5.0, 30.0
"""seconds without a connection before the first notice, and between two notices"""
LOG_IS_FINER = "%s: the log is more precise than requested and no translator serves this demand; no bandwidth is saved"

_log = logging.getLogger("thinwire.client")


class OutageMonitor:
    """Sends a notice while the broker is unreachable.

    since: the start of the current outage; None while the broker is reachable
    """

    def __init__(self, url: str, on_notice: Callable[[Notice], None]) -> None:
        self._url = url
        self._on_notice = on_notice
        self.since: float | None = None
        self._last_notice = 0.0

    def update(self, connected: bool, now: float) -> None:
        """Record the state of the connection."""
        if connected:
            self.since = None
            return
        if self.since is None:
            self.since = self._last_notice = now
        interval = FIRST_NOTICE if self._last_notice == self.since else NEXT_NOTICE
        if now - self._last_notice >= interval:
            self._last_notice = now
            seconds = now - self.since
            _log.warning("%s has been unreachable for %.0f s; reading resumes after reconnecting", self._url, seconds)
            self._on_notice(BrokerUnreachable(seconds))


class SubscriptionMonitor:
    """Compares what the publishers of a topic send with what a subscription requested.

    on_notice: called for each notice
    is_resumed: the subscription continues at a cursor, so that events before its first ones can be missed
    publishers: those of which events were received
    checked_bounds: the bounds that `check` has compared, by publisher; it is called for others
    """

    def __init__(
        self,
        request: SubscriptionRequest,
        topic: TopicMetadata,
        on_notice: Callable[[Notice], None],
        *,
        is_resumed: bool,
    ) -> None:
        self._request = request
        self._topic = topic
        self._on_notice = on_notice
        self._is_resumed = is_resumed
        self.publishers: set[str] = set()
        self._skewed: set[str] = set()
        self.checked_bounds: dict[str, Mapping[str, float | None]] = {}
        self._checked_versions: dict[str, tuple[StreamDecoder, int | None, int | None]] = {}
        self._reported_finer = False
        self._last_ordinals: dict[tuple[object, ...], int] = {}

    def check(self, batch: FeedBatch, *, on_channel: bool) -> None:
        """Pass on the notices of a batch, and compare the bounds of its publisher if they have changed."""
        decoder = batch.decoder
        while batch.notices:
            notice = batch.notices.pop(0)  # a callback may raise: no notice is sent twice
            if isinstance(notice, Watermark) and batch.time is not None:
                self._check_clock(notice, batch.time)
            if self._is_relevant(notice):
                self._on_notice(notice)
        if self.checked_bounds.get(decoder.publisher) is not decoder.bound and decoder.state is State.READY:
            self.checked_bounds[decoder.publisher] = decoder.bound
            self._check_bounds(decoder, on_channel=on_channel)

    def _is_relevant(self, notice: Notice) -> bool:
        """Return whether a notice is about events after the start of the subscription."""
        if not isinstance(notice, EventsMissed) or notice.first is not None:
            return True
        return self._is_resumed or notice.publisher in self.publishers

    def _check_clock(self, mark: Watermark, stored_at: float) -> None:
        """Compare the clock of a publisher with the broker's, by a message that the publisher has stored."""
        publisher = mark.publisher
        skew = mark.time - stored_at
        if abs(skew) <= MAX_SKEW:
            self._skewed.discard(publisher)
        elif publisher not in self._skewed:
            self._skewed.add(publisher)
            _log.warning("the clock of publisher %s differs by %.1f s from the broker's: set it (NTP)", publisher, skew)
            self._on_notice(ClockSkew(publisher, skew))

    def _check_bounds(self, decoder: StreamDecoder, *, on_channel: bool) -> None:
        """Compare the bounds of a publisher with the tolerances, once for each of its configurations."""
        version = (decoder, decoder.incarnation, decoder.config_version)
        if self._checked_versions.get(decoder.publisher) == version:
            return
        self._checked_versions[decoder.publisher] = version
        tolerances = self._request.tolerances(self._topic.schema)
        for property, tolerance in tolerances.items():
            bound = decoder.bound.get(property, 0.0)
            if bound is None or bound > tolerance:
                self._on_notice(BoundExceeded(decoder.publisher, property, bound, tolerance))
        is_finer = any(tolerance > (decoder.bound.get(name) or 0.0) for name, tolerance in tolerances.items())
        if is_finer and not on_channel and not self._reported_finer:
            self._reported_finer = True
            _log.log(logging.INFO if self._topic.managed else logging.WARNING, LOG_IS_FINER, self._topic.name)

    def predict_silent(self, decoder: StreamDecoder) -> list[Event]:
        """Return the predicted next event of each source that had no event since the previous call."""
        found: list[Event] = []
        for event in decoder.peek() if decoder.state is State.READY else ():
            key = (event.publisher, event.incarnation, *event.source)
            if self._last_ordinals.get(key) == event.ordinal:
                found.append(event)
            self._last_ordinals[key] = event.ordinal
        return found
