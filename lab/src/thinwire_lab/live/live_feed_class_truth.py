"""What a class must be told: the events in which a value has moved too far from the last one told of it.

Two hops, each by the same rule. Publishers hold a value until it is more than their tolerance off; the class gets what
its own tolerance leaves (`share`) and compares with what the publishers told. All in whole ticks, so that nothing
depends on how doubles are rounded.

>>> from thinwire_lab.live.live_feed import Course
>>> walk = np.array([[[0], [4], [7], [9], [20]]])
>>> course = Course(("t",), ["a"], np.array([5]), np.array([0]), 1000, walk)
>>> told = changes(course, log=5, share=5)
>>> told.step.tolist(), told.values.ravel().tolist()
([0, 2, 4], [0, 7, 20])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinwire_lab.live.live_feed import Course, Ints


@dataclass(frozen=True)
class Told:
    """Events by source and step.

    values: what they must show, in ticks; truth: what really was
    """

    source: Ints
    step: Ints
    values: Ints
    truth: Ints

    def __len__(self) -> int:
        return len(self.source)


def changes(course: Course, log: int, share: int) -> Told:
    """The events in which something fires; what does not fire in them stays as it was told last.

    log: ticks by which a value may be off in the publishers' log; share: those that the class adds
    """
    found: list[tuple[Ints, Ints, Ints]] = []
    told = shown = course.at(0)
    for step in range(course.steps):
        truth = course.at(step)
        told = np.where(np.abs(truth - told) > log, truth, told)
        fires = np.abs(told - shown) > share
        shown = np.where(fires, told, shown)
        # the first values are always told
        some = np.flatnonzero(course.goes_on(step) & (fires.any(axis=1) if step else True))
        found.append((some, shown[some], truth[some]))
    return Told(
        source=np.concatenate([some for some, _, _ in found]),
        step=np.repeat(np.arange(len(found)), [len(some) for some, _, _ in found]),
        values=np.concatenate([values for _, values, _ in found]),
        truth=np.concatenate([truth for _, _, truth in found]),
    )
