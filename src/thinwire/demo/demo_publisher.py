"""What a publisher spent while each configuration was in force.

The tolerances in force change between two events, whenever the registry says so. The key frames with which a publisher
goes over to others belong to the new phase.
"""

from __future__ import annotations

from typing import Any

from thinwire.client import TopicPublisher
from thinwire.codec import Demand
from thinwire.demo.demo_scenario import told
from thinwire.demo.demo_scenario_plants import TOPIC
from thinwire.ledger import COUNTERS, Row

Sums = dict[str, int]


class Phases:
    """The ledger of one publisher: a row for whatever was in force, in their order."""

    def __init__(self, run: str, out: TopicPublisher) -> None:
        self.run = run
        self._out = out
        self._raw = 0
        self._known: tuple[Demand, str] = (self._demand, told(self._demand))
        self._name = self.in_force
        self._begun: Sums = dict.fromkeys(COUNTERS, 0)
        self._seen = self._sums()
        self._closed: list[Row] = []

    @property
    def in_force(self) -> str:
        """The tolerances that are in force now, in words."""
        if self._known[0] is not self._demand:
            self._known = self._demand, told(self._demand)
        return self._known[1]

    def look(self) -> None:
        """Before events are published: have other tolerances come into force since the last ones?"""
        if self.in_force != self._name:
            self._closed.append(self._row(self._seen))
            self._begun, self._name = self._seen, self.in_force

    def published(self, raw_bytes: int) -> None:
        """After events were published, which as plain JSON are so many bytes."""
        self._raw += raw_bytes
        self._seen = self._sums()

    def rows(self) -> list[Row]:
        """What each phase took, the present one up to now."""
        return [*self._closed, self._row(self._sums())]

    @property
    def _demand(self) -> Demand:
        return self._out.link.config.demand

    def _row(self, until: Sums) -> Row:
        taken: dict[str, Any] = {name: until[name] - self._begun[name] for name in until}
        return Row(self.run, TOPIC, "publishers", self._name, "publisher", **taken)

    def _sums(self) -> Sums:
        out = self._out
        return {
            **{name: getattr(out.counts, name) for name in ("events", "frames", "rejected")},
            **{name: getattr(out.counts, name) for name in ("data_bytes", "key_bytes", "control_bytes")},
            **{name: getattr(out.link, name) for name in ("suppressed_events", "suppressed_values")},
            "dictionary_bytes": out.dictionary_bytes,
            "messages": out.messages,
            "raw_bytes": self._raw,
        }
