"""What a subscriber is told beside events, in words for people.

>>> describe_notice(EventsMissed("p1", ("T1",), 3, 7, "gap"))
'events 3 to 7 of T1 from publisher p1 are missing: messages of the log were lost or are no longer kept'
>>> describe_notice(BoundExceeded("p1", "temperature", 1.0, 0.5))
'temperature from publisher p1 may be off by 1 where 0.5 was asked, until the publisher follows'

What was promised to a subscriber, against what audits found: now and then an event travels exactly as well.

>>> promises = Promises()
>>> promises.note(Audit("p1", ("T1",), 7, {"t": 0.25}, {"t": 0.5}, {"t": 205}))
>>> promises.note(Audit("p1", ("T1",), 9, {"t": 0.75}, {"t": 0.5}, {"t": 212}))
>>> promises.rows({"t": 0.5})
[PropertyRow(property='t', tolerance=0.5, bound=0.5, audits=2, largest=0.75, p99=0.75, broken=1)]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from thinwire.cli.output import Output
from thinwire.client.notices import (
    BoundExceeded,
    BrokerUnreachable,
    ClockSkew,
    MessageUnreadable,
    Notice,
    NoTranslator,
    PublisherLost,
)
from thinwire.codec import Audit, EventsMissed
from thinwire.ledger.histogram import Histogram
from thinwire.ledger.row import Deviation

_REASONS = {
    "gap": "messages of the log were lost or are no longer kept",
    "restart": "the publisher started again and had not told them",
    "corrupt": "a message was damaged; it goes on from the next key frame",
    "diverged": "the state did not match the publisher's; it goes on from the next key frame",
    "unknown schema": "their schema is not known here; register it, or give it with --schema",
    "refused": "a message did not fit the link and was refused",
    "retention": "the log no longer reaches back that far",
}


def describe_notice(notice: Notice) -> str:
    """One line; nothing for what only programs want to know."""
    if isinstance(notice, EventsMissed):
        return _missed(notice)
    if isinstance(notice, BoundExceeded):
        off = "by an amount nobody promises" if notice.bound is None else f"by {notice.bound:g}"
        place = f"{notice.property} from publisher {notice.publisher}"
        return f"{place} may be off {off} where {notice.tolerance:g} was asked, until the publisher follows"
    if isinstance(notice, ClockSkew):
        return f"the clock of publisher {notice.publisher} is {notice.seconds:+.1f} s off the broker's: set it (NTP)"
    if isinstance(notice, MessageUnreadable):
        return f"message {notice.offset} of publisher {notice.publisher} cannot be read: {notice.reason}"
    if isinstance(notice, BrokerUnreachable):
        return f"the broker has not been reached for {notice.seconds:.0f} s; reading goes on when it is back"
    if isinstance(notice, NoTranslator):
        return notice.reason
    if isinstance(notice, PublisherLost):
        who = f"publisher {notice.publisher} of {notice.topic}"
        return f"{who} has not been heard for {notice.seconds:.0f} s; its values stay, and it is not waited for"
    return ""


def _missed(notice: EventsMissed) -> str:
    if not notice.publisher:
        return f"events that were due to this subscription are missing: {_REASONS.get(notice.reason, notice.reason)}"
    source = "every source" if notice.source is None else ", ".join(map(str, notice.source)) or "its only source"
    reason = _REASONS.get(notice.reason, notice.reason)
    return f"{_ordinals(notice)} of {source} from publisher {notice.publisher} are missing: {reason}"


def _ordinals(notice: EventsMissed) -> str:
    if notice.first is None or notice.last is None:
        return "some events"
    return f"events {notice.first} to {notice.last}"


COLUMNS = ["property", "asked", "promised", "audits", "largest error", "p99", "broken"]
_NONE = "no audits came: they travel on topics that are registered with audit_every=N, one in N events"


class PropertyRow(NamedTuple):
    """One property: what was asked and promised at most, and how far off it was found.

    bound: the widest that was promised, None where an event came without a promise
    broken: values further off than was promised
    """

    property: str
    tolerance: float | None
    bound: float | None
    audits: int
    largest: float
    p99: float | None
    broken: int


@dataclass
class _Found:
    """What audits found of one property."""

    promised: bool = True
    bound: float = 0.0
    deviation: Deviation = field(default_factory=Deviation)
    errors: Histogram = field(default_factory=Histogram)

    def note(self, error: float, bound: float | None) -> None:
        self.errors.add(error)
        if bound is None:
            self.promised = False
            return
        self.bound = max(self.bound, bound)
        self.deviation.add(error, bound)


class Promises:
    """Collects audits."""

    def __init__(self) -> None:
        self._found: dict[str, _Found] = {}

    @property
    def broken(self) -> bool:
        """Was anything further off than promised?"""
        return any(found.deviation.broken for found in self._found.values())

    def note(self, audit: Audit) -> None:
        """What one audit found."""
        for name, error in audit.errors.items():
            self._found.setdefault(name, _Found()).note(error, audit.bound.get(name))

    def rows(self, tolerances: Mapping[str, float]) -> list[PropertyRow]:
        """What was found of every property that was asked for."""
        return [
            PropertyRow(
                name,
                tolerances[name],
                found.bound if found.promised else None,
                found.errors.count,
                max(found.errors.most, 0.0),
                found.errors.quantile(0.99),
                found.deviation.broken,
            )
            for name, found in self._found.items()
            if name in tolerances
        ]

    def show(self, topic: str, feed: str, tolerances: Mapping[str, float], *, json: bool) -> None:
        """A table on standard error; with `json` a document on standard output as well."""
        out = Output(json=True)
        rows = self.rows(tolerances)
        if rows:
            out.table(f"{topic}: promises and facts, read from the {feed}", COLUMNS, rows)
        else:
            out.note(_NONE)
        if json:
            out.document({"topic": topic, "feed": feed, "properties": [row._asdict() for row in rows]})
