"""What came of a scenario: counts and latencies by topic and by audience, and the rows of its ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thinwire.ledger import Histogram, Row, merge
from thinwire.ledger import histogram as histograms


@dataclass(frozen=True)
class TopicOutcome:
    """What was published.

    late_p99, late_max: seconds by which events left later than they were meant to
    """

    topic: str
    publishers: int
    events: int
    frames: int
    suppressed_events: int
    frame_bytes: int
    late_p99: float | None
    late_max: float | None


@dataclass(frozen=True)
class AudienceOutcome:
    """What was handed out, and how long after the instants at which it was meant to be sent, in seconds.

    on_channels: how many of the subscribers ended on a channel; missed: notices of what could not be had
    """

    topic: str
    asked: str
    subscribers: int
    on_channels: int
    events: int
    virtual: int
    frame_bytes: int
    missed: int
    p50: float | None
    p90: float | None
    p99: float | None
    most: float | None


@dataclass(frozen=True)
class ScenarioOutcome:
    """A run."""

    scenario: str
    seed: int
    seconds: float
    topics: tuple[TopicOutcome, ...]
    audiences: tuple[AudienceOutcome, ...]
    rows: tuple[Row, ...]


def of_topic(topic: str, rows: Sequence[Row], late: Sequence[Histogram]) -> TopicOutcome:
    """The publishers of a topic together."""
    total, spread = merge(rows), histograms.merged(late)
    return TopicOutcome(
        topic,
        len(rows),
        total.events,
        total.frames,
        total.suppressed_events,
        total.frame_bytes,
        spread.quantile(0.99),
        spread.quantile(1.0),
    )


def of_audience(rows: Sequence[Row], on_channels: int) -> AudienceOutcome:
    """The subscribers of an audience together; latencies of sent events and of virtual ones in one spread."""
    total = merge(rows)
    spread = histograms.merged([total.latency_sent, total.latency_virtual])
    return AudienceOutcome(
        total.topic,
        total.class_,
        len(rows),
        on_channels,
        total.events,
        total.latency_virtual.count,
        total.frame_bytes,
        total.told_missing,
        *(spread.quantile(share) for share in (0.5, 0.9, 0.99, 1.0)),
    )
