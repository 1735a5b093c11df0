"""Results of a scenario: counts and latencies by topic and by audience, and rows for a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thinwire.ledger import Histogram, Row, merge
from thinwire.ledger.histogram import merge_histograms


@dataclass(frozen=True)
class TopicOutcome:
    """Published events of a topic.

    late_p99, late_max: delay between the due times of events and their publication, in seconds
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
    """Delivered events of an audience, and their latency from the due times in seconds.

    asked: label of the audience
    on_channels: number of subscribers that read a channel at the end; missed: notices of missed events
    most: maximum latency
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
    """Results of a run."""

    scenario: str
    seed: int
    seconds: float
    topics: tuple[TopicOutcome, ...]
    audiences: tuple[AudienceOutcome, ...]
    rows: tuple[Row, ...]


def topic_outcome(topic: str, rows: Sequence[Row], late: Sequence[Histogram]) -> TopicOutcome:
    """Return the result of the publishers of a topic."""
    total, delays = merge(rows), merge_histograms(late)
    return TopicOutcome(
        topic,
        len(rows),
        total.events,
        total.frames,
        total.suppressed_events,
        total.frame_bytes,
        delays.quantile(0.99),
        delays.quantile(1.0),
    )


def audience_outcome(rows: Sequence[Row], on_channels: int) -> AudienceOutcome:
    """Return the result of the subscribers of an audience; latencies of sent and virtual events are merged."""
    total = merge(rows)
    latencies = merge_histograms([total.latency_sent, total.latency_virtual])
    return AudienceOutcome(
        total.topic,
        total.class_,
        len(rows),
        on_channels,
        total.events,
        total.latency_virtual.count,
        total.frame_bytes,
        total.told_missing,
        *(latencies.quantile(share) for share in (0.5, 0.9, 0.99, 1.0)),
    )
