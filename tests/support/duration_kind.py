"""A property kind that an application defines: a time span, encoded as seconds."""

from datetime import timedelta

from thinwire.schema import CustomKind, Kind, custom_kind, register_kind


class Duration(CustomKind):
    name = "duration"
    base = Kind.NUMBER
    step = "0.1"

    @staticmethod
    def to_base(value):
        return value.total_seconds()

    @staticmethod
    def from_base(value):
        return timedelta(seconds=value)


def register_duration(monkeypatch):
    """Register the kind, and no other, for one test."""
    monkeypatch.setattr(custom_kind, "_REGISTERED", {})
    register_kind(Duration)
