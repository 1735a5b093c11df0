"""Subscribers of a round in several classes; one of each class audits every event it is handed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from thinwire_lab.live.delivery_audit import strictly
from thinwire_lab.live.delivery_audit_class_record import Record
from thinwire_lab.live.live_feed import Course, feed_course, in_ticks
from thinwire_lab.live.live_feed_class_truth import Told, changes
from thinwire_lab.live.load_roles_roles import NOTES, SubscriberRole
from thinwire_lab.live.process_measurement import Taken
from thinwire_lab.live.stacks import Route


class Auditor(Taken):
    """Notes of a subscriber that also writes every event down, and knows which ones its class must be told.

    log: the tolerance of the strictest class, which is the publishers' own
    """

    def __init__(self, tolerance: float, log: float, **notes: Any) -> None:
        super().__init__(**notes)
        self.tolerance = tolerance
        self.log = log
        self.start = 0
        self._course: Course | None = None
        self._told: Told | None = None
        self._record: Record | None = None

    @property
    def told(self) -> int:
        """How many events the class must be told."""
        return len(self._told) if self._told is not None else 0

    def prepare(self, course: Course) -> None:
        """Work out what is to come, and make room for it."""
        log = in_ticks(self.log)
        told = changes(course, log, in_ticks(self.tolerance) - log)
        self._course, self._told = course, told
        self._record = Record(
            course.names, course.readings, source=self.source, stamp=self.stamp, capacity=len(told) + len(course.names)
        )

    def take(self, events: Sequence[Any], sent: Sequence[Mapping[str, Any]], now: int) -> None:
        super().take(events, sent, now)
        if self._record is not None:
            self._record.note(events)

    def faults(self) -> int:
        """What is wrong with what came: anything missing, too much, out of order or not as it must be."""
        assert self._record is not None
        assert self._told is not None
        assert self._course is not None
        return strictly(self._record, self._told, self._course, self.start, self.tolerance).faults


class ClassSubscriberRole(SubscriberRole):
    """Some subscribers, each of the next class.

    classes: tolerances; readers: processes like this one, among which auditors are spread
    publishers: whose feeds are read
    """

    def __init__(self, classes: Sequence[float], readers: int, publishers: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.classes = tuple(classes)
        self.readers = readers
        self.publishers = publishers

    def route_of(self, place: int) -> Route:
        return replace(self.route, tolerance=self._tolerance(place))

    def notes_of(self, place: int) -> Taken:
        # the first of each class, every other class in another process
        audits = place < len(self.classes) and self._class(place) % self.readers == self.number
        notes = NOTES[self.feed]
        return Auditor(self._tolerance(place), min(self.classes), **notes) if audits else Taken(**notes)

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        if command["do"] == "prepare":
            course = feed_course(command["rate"], self.publishers, command["seconds"], command["turn"])
            for auditor in self._auditors():
                auditor.prepare(course)
            return {}
        if command["do"] == "begin":
            for auditor in self._auditors():
                auditor.start = command["start"]
        answer = await super().obey(command)
        return answer | self._audit() if command["do"] == "end" else answer

    def events(self) -> list[int]:
        """What each was handed: a channel has nothing that would have to be left out."""
        return [notes.events for notes in self._notes]

    def _audit(self) -> dict[str, Any]:
        return {
            "classes": [self._tolerance(place) for place in range(self.connections)],
            "told": [notes.told if isinstance(notes, Auditor) else None for notes in self._notes],
            "faults": [*(auditor.faults() for auditor in self._auditors()), *self._astray()],
        }

    def _astray(self) -> list[int]:
        """Who reads the log although the class has a channel has its events another way: that would not be measured."""
        strictest = min(self.classes)
        return [
            int((receiver.feed == "log") is not (self._tolerance(place) == strictest))
            for place, receiver in enumerate(self._receivers)
        ]

    def _auditors(self) -> list[Auditor]:
        return [notes for notes in self._notes if isinstance(notes, Auditor)]

    def _class(self, place: int) -> int:
        return (self.number * self.connections + place) % len(self.classes)

    def _tolerance(self, place: int) -> float:
        return self.classes[self._class(place)]


def share_expectations(answers: Sequence[dict[str, Any]]) -> None:
    """What the auditor of a class expects is what all of its class expect.

    >>> answers = [{"classes": [1.0, 2.0], "told": [7, None]}, {"classes": [1.0, 2.0], "told": [None, 5]}]
    >>> share_expectations(answers)
    >>> [answer["told"] for answer in answers]
    [[7, 5], [7, 5]]
    """
    told = {
        tolerance: number
        for answer in answers
        for tolerance, number in zip(answer["classes"], answer["told"], strict=True)
        if number is not None
    }
    for answer in answers:
        answer["told"] = [told[tolerance] for tolerance in answer["classes"]]
