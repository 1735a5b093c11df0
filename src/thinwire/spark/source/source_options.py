"""Places in the logs of topics, as options and checkpoints write them: JSON objects of offsets by topic.

An offset is the number of the next message to read; -2 stands for the earliest that the log holds, -1 for its end.

>>> place = read_places("startingOffsets", '{"rooms": 120, "doors": -2}')
>>> place.of("rooms"), place.of("doors")
(120, -2)
>>> read_places("startingOffsets", "latest").of("rooms")
-1
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from thinwire.brokers.protocol_broker import Span
from thinwire.errors import ConfigError

EARLIEST, LATEST = -2, -1
_WORDS = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True)
class Place:
    """An offset for every topic: its own, or the one for all."""

    default: int
    by_topic: Mapping[str, int] = field(default_factory=dict)

    def of(self, topic: str) -> int:
        """The offset of a topic, as it was written."""
        return self.by_topic.get(topic, self.default)

    def within(self, topic: str, span: Span) -> int:
        """The offset of a topic in its log: the next message to read."""
        offset = self.of(topic)
        if offset == EARLIEST:
            return span.first
        return span.last + 1 if offset == LATEST else offset

    def check(self, option: str, topics: list[str]) -> None:
        """Refuse offsets of topics that are not read."""
        unknown = sorted(set(self.by_topic) - set(topics))
        if unknown:
            raise ConfigError("an offset of a topic that is not read", option=option, topic=unknown[0], topics=topics)


class Reached(NamedTuple):
    """How far a stream has come in a topic: the next message to read, and of which log.

    log: when that was made (`Span.made`), for a log that is deleted and made again counts from 1 again; empty where
    nobody knows
    """

    offset: int
    log: str = ""


def written(reached: Mapping[str, Reached]) -> dict[str, Any]:
    """As the checkpoint of a query holds it.

    >>> written({"rooms": Reached(120, "2026-01-31T08:00:00Z"), "doors": Reached(1)})
    {'rooms': {'offset': 120, 'log': '2026-01-31T08:00:00Z'}, 'doors': {'offset': 1}}
    """
    return {
        topic: {"offset": place.offset, "log": place.log} if place.log else {"offset": place.offset}
        for topic, place in reached.items()
    }


def read_written(found: Mapping[str, Any]) -> dict[str, Reached]:
    """What `written` wrote; plain offsets, as checkpoints once had them, do not tell of which log they are.

    >>> read_written({"rooms": {"offset": 120, "log": "2026-01-31T08:00:00Z"}, "doors": 7})["doors"]
    Reached(offset=7, log='')
    """
    return {topic: Reached(**place) if isinstance(place, dict) else Reached(place) for topic, place in found.items()}


def read_places(option: str, text: str) -> Place:
    """What an option says: earliest, latest, or an object."""
    word = _WORDS.get(text.strip().lower())
    if word is not None:
        return Place(word)
    try:
        asked = json.loads(text)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict) or not asked:
        detail = 'earliest, latest, or an object of offsets by topic such as {"building.rooms": 120}'
        raise ConfigError(detail, option=option, value=text)
    for topic, offset in asked.items():
        if isinstance(offset, bool) or not isinstance(offset, int) or not EARLIEST <= offset < 1 << 62:
            detail = "an offset is a whole number, -2 for the earliest, -1 for the latest"
            raise ConfigError(detail, option=option, topic=topic, offset=offset)
    return Place(EARLIEST if option == "startingOffsets" else LATEST, asked)
