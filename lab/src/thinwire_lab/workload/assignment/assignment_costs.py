"""Costs of an assignment of subscribers to brokers: wasted deliveries, latency, and uneven load.

Subscriptions with the same rectangle and the same nearest broker form a group.

Deliveries are counted with a sample of events as bit sets. In the order of the events along an axis, a rectangle is a
range of positions. For each position the set of all events before it is stored. The events of a range are the
difference of two such sets, and the events of a rectangle the intersection over all axes, 64 events at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire_lab.workload.assignment.assignment_kernels import count_events, count_useful, fill_nearest
from thinwire_lab.workload.random_rows import Floats, Ints

Positions = NDArray[np.int32]
Words = NDArray[np.uint64]

MAX_EVENTS = 20_000
"""events of a sample; the sets of larger samples exceed 50 MB per axis"""


class EventSample(NamedTuple):
    """A sample of events, sorted along each axis.

    ordered: coordinates of the events by axis, ascending
    events_before: set of the events before each position, by axis
    """

    ordered: Floats
    events_before: Words

    @classmethod
    def of(cls, events: Floats) -> EventSample:
        """Return the sets of a sample of events."""
        count, axes = events.shape
        if count > MAX_EVENTS:
            raise ConfigError("the sample of events must be smaller", events=count, limit=MAX_EVENTS)
        order = np.argsort(events, axis=0, kind="stable")
        events_before = np.zeros((axes, count + 1, -(-count // 64)), dtype=np.uint64)
        for axis in range(axes):
            positions = np.arange(count)
            events_before[axis, positions + 1, order[:, axis] // 64] = np.uint64(1) << (order[:, axis] % 64).astype(
                np.uint64
            )
            np.bitwise_or.accumulate(events_before[axis], axis=0, out=events_before[axis])
        return cls(np.ascontiguousarray(np.take_along_axis(events, order, axis=0).T), events_before)

    def ranges(self, low: Floats, high: Floats) -> tuple[Positions, Positions]:
        """Return the position of the first event of each rectangle, and the position after the last one, by axis."""
        begin, end = np.empty(low.shape, dtype=np.int32), np.empty(low.shape, dtype=np.int32)
        for axis, ordered in enumerate(self.ordered):
            begin[:, axis] = np.searchsorted(ordered, low[:, axis], side="left")
            end[:, axis] = np.searchsorted(ordered, high[:, axis], side="right")
        return begin, end


class GroupDemands(NamedTuple):
    """Groups of subscriptions, brokers, and a sample of events.

    low, high: corners of the rectangles, one row per group
    weight: number of subscriptions of each group
    nearest: nearest broker of each group; distance: mean distance from it
    centres: mean location of each group
    brokers: points in the network; events: points in the event space
    """

    low: Floats
    high: Floats
    weight: Floats
    nearest: Ints
    distance: Floats
    centres: Floats
    brokers: Floats
    events: Floats

    def check(self) -> None:
        """Raise an error if there are no groups, no brokers or no events."""
        counts = {"groups": len(self.low), "brokers": len(self.brokers), "events": len(self.events)}
        if not all(counts.values()):
            raise ConfigError("needs at least one group, one broker and one event", **counts)

    @property
    def p90_distance(self) -> float:
        """The 90 % quantile of the latency to the nearest broker, with the mean of each group."""
        order = np.argsort(self.distance)
        ends = np.cumsum(self.weight[order])
        return float(self.distance[order][np.searchsorted(ends, 0.9 * ends[-1])])


def nearest_brokers(locations: Floats, brokers: Floats) -> tuple[Ints, Floats]:
    """Return the nearest broker of each location, and the latency to it."""
    brokers_of, distance = np.empty(len(locations), dtype=np.int64), np.empty(len(locations))
    fill_nearest(np.ascontiguousarray(locations), np.ascontiguousarray(brokers), brokers_of, distance)
    return brokers_of, distance


def group_keys(low: Floats, high: Floats, nearest: Ints) -> NDArray[np.void]:
    """Return sortable keys of groups, as bytes: rectangle and nearest broker."""
    both = np.hstack([low, high, nearest[:, None].astype(np.float64)]) + 0.0  # -0.0 becomes 0.0
    return np.ascontiguousarray(both).view(np.dtype((np.void, both.itemsize * both.shape[1]))).ravel()


QUANTILES = (0.5, 0.9, 0.99)


class AssignmentCosts(NamedTuple):
    """Costs of an assignment.

    delivered: deliveries to brokers per published event; the super-interest of a broker is the box around its
        rectangles
    wasted: deliveries that no subscription of the broker matches
    p50, p90, p99: latency from subscribers to their brokers, in milliseconds
    heaviest: highest load of a broker, in mean loads
    """

    delivered: float
    wasted: float
    p50: float
    p90: float
    p99: float
    heaviest: float


class BrokerLoad(NamedTuple):
    """The costs without latency, as in `AssignmentCosts`."""

    delivered: float
    wasted: float
    heaviest: float

    def costs(self, latency: Floats) -> AssignmentCosts:
        """Return all costs, with the quantiles of the latency."""
        p50, p90, p99 = map(float, latency)
        return AssignmentCosts(self.delivered, self.wasted, p50, p90, p99, self.heaviest)


def broker_load(groups: GroupDemands, chosen: Ints) -> BrokerLoad:
    """Return the load of brokers when each group is assigned to the broker in `chosen`."""
    brokers, events = len(groups.brokers), len(groups.events)
    sample = EventSample.of(groups.events)
    begin, end = sample.ranges(groups.low, groups.high)
    needed = np.zeros((brokers, sample.events_before.shape[2]), dtype=np.uint64)
    useful = count_useful(sample.events_before, begin, end, chosen, needed) / events
    boxes = zip(*super_interests(sample, brokers, chosen, begin, end), strict=True)
    delivered = sum(int(count_events(sample.events_before, low, high)) for low, high in boxes) / events
    loads = np.bincount(chosen, groups.weight, minlength=brokers)
    return BrokerLoad(delivered, delivered - useful, float(loads.max() / loads.mean()))


def super_interests(
    sample: EventSample, brokers: int, chosen: Ints, begin: Positions, end: Positions
) -> tuple[Positions, Positions]:
    """Return the begin and the end of the super-interest of each broker."""
    begins, ends = empty_super_interests(sample, brokers)
    np.minimum.at(begins, chosen, begin)
    np.maximum.at(ends, chosen, end)
    return begins, ends


def empty_super_interests(sample: EventSample, brokers: int) -> tuple[Positions, Positions]:
    """Return the super-interests of brokers without groups."""
    axes, events = sample.ordered.shape
    return np.full((brokers, axes), events, dtype=np.int32), np.zeros((brokers, axes), dtype=np.int32)
