"""Sensors of a world of classes: in some worlds readings creep, so that what is held drifts out of its tolerance."""

from __future__ import annotations

from random import Random
from typing import Any

from thinwire.schema import Kind, Property
from thinwire.testing.worlds.world_sensors_world_readings import Sensors

_RANGE = 20.0
"""how far a reading creeps before it turns back"""


class CreepingSensors(Sensors):
    """Numbers go up a few steps at a time, and back when they are far out."""

    def __init__(self, chance: Random, *, sources: int, chatter: float, large: bool) -> None:
        super().__init__(chance, sources=sources, chatter=chatter, large=large)
        self._steps = chance.choice((1, 3, 10, 40))
        self._creeping = chance.random() < 0.5

    def _moved(self, p: Property, last: Any) -> Any:
        if not self._creeping or last is None or p.kind not in (Kind.NUMBER, Kind.INTEGER, Kind.FLOAT):
            return super()._moved(p, last)
        if p.kind is Kind.INTEGER:
            return 0 if last > _RANGE else last + 1
        if p.kind is Kind.FLOAT:
            return 0.0 if last > _RANGE else round(last + 0.01 * self._steps, 3)
        assert p.step is not None
        ticks = round(last / p.step) + self._steps
        return 0.0 if last > _RANGE else ticks * p.step.numerator / p.step.denominator
