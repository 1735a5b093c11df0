"""A demonstration as a document."""

from __future__ import annotations

from typing import Any

from thinwire.demo import Channel, Landing, Phase, Seat, Translating, View
from thinwire.ledger import Histogram


def facts(view: View) -> dict[str, Any]:
    """All that the tables say, and what they leave out for want of room."""
    return {
        "seconds": view.elapsed,
        "events": view.events,
        "kept": view.kept,
        "stored": [{name: getattr(row, name) for name in ("link", "messages", "stored_bytes")} for row in view.stored],
        "subscribers": [_seat(seat) for seat in view.seats],
        "translator": _translating(view.translating),
        "phases": [_phase(phase) for phase in view.phases],
        "spark": None if view.landing is None else _landing(view.landing),
    }


def _seat(seat: Seat) -> dict[str, Any]:
    row = seat.row
    return {
        "class": seat.name,
        **seat.guest.asks,
        "joined": seat.joined,
        "reads": seat.reads,
        "events": row.events,
        "virtual_events": row.suppressed_events,
        **{name: getattr(seat, name) for name in ("checked", "broken", "lost", "early", "breach", "kept", "read_back")},
        "raw_bytes": row.raw_bytes,
        "frame_bytes": row.frame_bytes,
        "saved": row.saved,
        "json_link_bytes": seat.json_link_bytes,
        "link_bytes": seat.link_bytes,
        "worst_error": row.error_max,
        "latency_sent": _quantiles(row.latency_sent),
        "latency_virtual": _quantiles(row.latency_virtual),
    }


def _translating(translating: Translating) -> dict[str, Any]:
    return {
        "events": translating.row.events,
        "cpu_seconds": sum(translating.row.cpu_seconds.values()),
        "cpu_seconds_per_event": translating.cpu_per_event,
        "link_bytes": translating.row.link_bytes,
        "classes": [_channel(channel) for channel in translating.channels],
    }


def _channel(channel: Channel) -> dict[str, Any]:
    row = channel.row
    return {
        "class": channel.name,
        "subscribers": channel.subscribers,
        "reads": channel.reads,
        **{name: getattr(row, name) for name in ("events", "frames", "frame_bytes", "bytes_per_event")},
        "log_bytes": channel.log_bytes,
        "less": channel.less,
        "link_bytes": channel.link_bytes,
    }


def _phase(phase: Phase) -> dict[str, Any]:
    row = phase.row
    counters = ("events", "suppressed_events", "raw_bytes", "frame_bytes", "bytes_per_event", "saved", "link_bytes")
    return {"in_force": phase.in_force, **{name: getattr(row, name) for name in counters}}


def _landing(landing: Landing) -> dict[str, Any]:
    told = ("rows", "equal", "heard", "published", "differing", "bytes_read", "first", "seconds", "problem")
    counters = ("link_bytes", "stored_bytes")
    return {
        "class": landing.row.class_,
        **{name: getattr(landing, name) for name in told},
        **{name: getattr(landing.row, name) for name in counters},
    }


def _quantiles(spread: Histogram) -> dict[str, float | int | None]:
    return {"count": spread.count, "p50": spread.quantile(0.5), "p99": spread.quantile(0.99)}
