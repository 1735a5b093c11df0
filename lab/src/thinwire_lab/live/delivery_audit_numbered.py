"""Events whose truth is known everywhere: numbered, with a value that follows from the number.

A subscriber's record is judged without asking anybody: every number of every source once, in order, every value as
near to the truth as its bound says.

>>> record = [("a", 0, reading(0), 0.5), ("a", 2, reading(2), 0.5), ("a", 2, reading(2) + 1, 0.5)]
>>> judge(record, {"a": 3})
Verdict(events=3, missing=2, repeated=1, disordered=0, beyond=1)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from thinwire.schema import Property, Schema
from thinwire_lab.live.delivery_audit import Findings

TOPIC = "chaos.numbers"
TOLERANCE = 0.5
PERIOD = 20
"""milliseconds between two events of a source, as their timestamps tell"""
_BASE = 1_700_000_000_000
_SLACK = 1e-9
"""the value and its truth are doubles of decimals"""

Line = tuple[str, int, float, float]
"""source, number, value, bound"""


class Verdict(NamedTuple):
    """What is wrong with a record: events missing, there again, before an earlier one, further off than promised."""

    events: int
    missing: int = 0
    repeated: int = 0
    disordered: int = 0
    beyond: int = 0

    @property
    def faults(self) -> int:
        return self.missing + self.repeated + self.disordered + self.beyond


def wrong(found: Verdict | Findings) -> str:
    """What is wrong, in words; nothing where nothing is.

    >>> wrong(Verdict(events=30, missing=2, beyond=1)), wrong(Verdict(events=30))
    ('2 missing, 1 beyond', '')
    """
    counted = found._asdict().items()
    return ", ".join(f"{count:,} {what}" for what, count in counted if count and what != "events")


def numbered_schema() -> Schema:
    """The schema of numbered events."""
    return Schema(
        TOPIC,
        [
            Property("time", "timestamp", "header", form="epoch", step=1),
            Property("sensor", "string", "dimension"),
            Property("number", "integer"),
            Property("value", "number", step="0.1"),
        ],
    )


def reading(number: int) -> float:
    """The value of an event: a new level every third time, in between movements smaller than the tolerance.

    >>> [reading(number) for number in range(5)]
    [10.0, 10.1, 10.2, 17.4, 17.5]
    """
    return (100 + number // 3 * 37 % 101 * 2 + number % 3) / 10


def numbered(sensor: str, number: int) -> dict[str, Any]:
    """An event of a source."""
    return {"time": _BASE + number * PERIOD, "sensor": sensor, "number": number, "value": reading(number)}


def judge(record: Iterable[Line], last: Mapping[str, int], tolerance: float = TOLERANCE) -> Verdict:
    """What is wrong with a record, where the numbers of each source went from 0 to `last`."""
    seen: dict[str, set[int]] = {sensor: set() for sensor in last}
    highest = dict.fromkeys(last, -1)
    events = repeated = disordered = beyond = 0
    for sensor, number, value, bound in record:
        events += 1
        repeated += number in seen[sensor]
        disordered += number < highest[sensor]
        beyond += not abs(value - reading(number)) <= bound + _SLACK or not bound <= tolerance
        seen[sensor].add(number)
        highest[sensor] = max(highest[sensor], number)
    missing = sum(len(set(range(last[sensor] + 1)) - numbers) for sensor, numbers in seen.items())
    return Verdict(events, missing, repeated, disordered, beyond)
