"""What an assignment costs: events that brokers get for nothing, latency, and how unevenly brokers are loaded.

Which events boxes hold, as sets of bits: a sample of events makes a box two places in the order of each axis.

Of the events in their order along an axis, those from one place up to another are the difference of two sets that begin
at the first event. Such sets are kept for every place; a box then holds what all its sides hold, a word of 64 events at
a time.

Subscribers as an assignment sees them: those with one interest who are nearest to one broker go together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire_lab.workload.assignment.assignment_kernels import count_useful, find_homes, held
from thinwire_lab.workload.random_rows import Floats, Rows

Places = NDArray[np.int32]
Words = NDArray[np.uint64]

MOST_EVENTS = 20_000
"""events of a sample: sets of more take above 50 MB an axis"""


class Deliveries(NamedTuple):
    """A sample of events in the order of each axis.

    ordered: by axis, the coordinates of the events, ascending
    until: by axis and place, the set of events before that place
    """

    ordered: Floats
    until: Words

    @classmethod
    def of(cls, events: Floats) -> Deliveries:
        """The sets of a sample of events."""
        count, axes = events.shape
        if count > MOST_EVENTS:
            raise ConfigError("a sample of events is smaller", events=count, highest=MOST_EVENTS)
        order = np.argsort(events, axis=0, kind="stable")
        until = np.zeros((axes, count + 1, -(-count // 64)), dtype=np.uint64)
        for axis in range(axes):
            places = np.arange(count)
            until[axis, places + 1, order[:, axis] // 64] = np.uint64(1) << (order[:, axis] % 64).astype(np.uint64)
            np.bitwise_or.accumulate(until[axis], axis=0, out=until[axis])
        return cls(np.ascontiguousarray(np.take_along_axis(events, order, axis=0).T), until)

    def sides(self, low: Floats, high: Floats) -> tuple[Places, Places]:
        """Of each box and axis the place of its first event, and the place after its last one."""
        begin, end = np.empty(low.shape, dtype=np.int32), np.empty(low.shape, dtype=np.int32)
        for axis, ordered in enumerate(self.ordered):
            begin[:, axis] = np.searchsorted(ordered, low[:, axis], side="left")
            end[:, axis] = np.searchsorted(ordered, high[:, axis], side="right")
        return begin, end


class AssignmentPopulation(NamedTuple):
    """Subscriptions, brokers, and a sample of the events that both wait for.

    low, high: corners of the rectangles, a row a subscription
    places, brokers: points in the network
    events: points in the event space
    """

    low: Floats
    high: Floats
    places: Floats
    brokers: Floats
    events: Floats

    def check(self) -> None:
        """Refuse what does not fit together."""
        _check(self.low, self.high, self.places, self.brokers, self.events)


class GroupDemands(NamedTuple):
    """Groups of subscriptions, and what can be offered to them.

    weight: how many subscriptions there are in each group
    nearest: the broker nearest to each group; distance: how far that is, in the mean
    centres: the middle of each group in the network
    """

    low: Floats
    high: Floats
    weight: Floats
    nearest: Rows
    distance: Floats
    centres: Floats
    brokers: Floats
    events: Floats

    def check(self) -> None:
        """Refuse what does not fit together."""
        _check(self.low, self.high, self.centres, self.brokers, self.events)

    @property
    def usual(self) -> float:
        """The latency that nine in ten have to their nearest broker, taking every group at its mean."""
        order = np.argsort(self.distance)
        ends = np.cumsum(self.weight[order])
        return float(self.distance[order][np.searchsorted(ends, 0.9 * ends[-1])])


def nearest(places: Floats, brokers: Floats) -> tuple[Rows, Floats]:
    """The nearest broker of every place, and the latency to it; a place has the same one in whatever company."""
    home, distance = np.empty(len(places), dtype=np.int64), np.empty(len(places))
    find_homes(np.ascontiguousarray(places), np.ascontiguousarray(brokers), home, distance)
    return home, distance


def names_of(low: Floats, high: Floats, home: Rows) -> NDArray[np.void]:
    """Something to know a group by: its rectangle and its nearest broker, as bytes that can be put in order."""
    both = np.hstack([low, high, home[:, None].astype(np.float64)]) + 0.0  # -0.0 and 0.0 are one number
    return np.ascontiguousarray(both).view(np.dtype((np.void, both.itemsize * both.shape[1]))).ravel()


def demands(population: AssignmentPopulation) -> tuple[GroupDemands, Rows]:
    """The groups of a population, and of each subscription its group."""
    given = population
    given.check()
    home, way = nearest(given.places, given.brokers)
    _, first, of = np.unique(names_of(given.low, given.high, home), return_index=True, return_inverse=True)
    weight = np.bincount(of).astype(np.float64)
    centres = np.stack([np.bincount(of, lane) for lane in given.places.T], axis=1) / weight[:, None]
    distance = np.bincount(of, way) / weight
    groups = (given.low[first], given.high[first], weight, home[first], distance, centres)
    return GroupDemands(*groups, given.brokers, given.events), of


def _check(low: Floats, high: Floats, places: Floats, brokers: Floats, events: Floats) -> None:
    if len(low) != len(places) or low.shape != high.shape:
        raise ConfigError("a rectangle and a place for every subscription", rectangles=len(low), places=len(places))
    counts = {"subscriptions": len(low), "brokers": len(brokers), "events": len(events)}
    if not all(counts.values()):
        raise ConfigError("at least one subscription, one broker and one event", **counts)


QUANTILES = (0.5, 0.9, 0.99)


class AssignmentCosts(NamedTuple):
    """Costs of an assignment.

    delivered: deliveries to brokers for each event published, by their super-interests: the box of all rectangles
    wasted: those of them that no subscription of the broker matches
    p50, p90, p99: latency from subscribers to their brokers, in milliseconds
    heaviest: the load of the most loaded broker, in mean loads
    """

    delivered: float
    wasted: float
    p50: float
    p90: float
    p99: float
    heaviest: float


class Burden(NamedTuple):
    """What brokers bear, in the words of `AssignmentCosts`."""

    delivered: float
    wasted: float
    heaviest: float

    def costs(self, latency: Floats) -> AssignmentCosts:
        """All costs, with the quantiles of the latency."""
        p50, p90, p99 = map(float, latency)
        return AssignmentCosts(self.delivered, self.wasted, p50, p90, p99, self.heaviest)


def burden(groups: GroupDemands, chosen: Rows) -> Burden:
    """What brokers bear when each group goes to the broker chosen for it."""
    brokers, events = len(groups.brokers), len(groups.events)
    sets = Deliveries.of(groups.events)
    begin, end = sets.sides(groups.low, groups.high)
    needed = np.zeros((brokers, sets.until.shape[2]), dtype=np.uint64)
    useful = count_useful(sets.until, begin, end, chosen, needed) / events
    delivered = _delivered(sets, begin, end, chosen, brokers) / events
    loads = np.bincount(chosen, groups.weight, minlength=brokers)
    return Burden(delivered, delivered - useful, float(loads.max() / loads.mean()))


def costs(population: AssignmentPopulation, groups: GroupDemands, of: Rows, chosen: Rows) -> AssignmentCosts:
    """The costs of giving each group to the broker chosen for it; latency is that of every single subscriber."""
    latency = np.linalg.norm(population.places - population.brokers[chosen[of]], axis=1)
    return burden(groups, chosen).costs(np.quantile(latency, QUANTILES))


def _delivered(sets: Deliveries, begin: Places, end: Places, chosen: Rows, brokers: int) -> int:
    """How many events the super-interests of all brokers hold."""
    begins, ends = nowhere(sets, brokers)
    np.minimum.at(begins, chosen, begin)
    np.maximum.at(ends, chosen, end)
    return sum(int(held(sets.until, low, high)) for low, high in zip(begins, ends, strict=True))


def nowhere(sets: Deliveries, brokers: int) -> tuple[Places, Places]:
    """The super-interests of brokers that have no group yet."""
    axes, events = sets.ordered.shape
    return np.full((brokers, axes), events, dtype=np.int32), np.zeros((brokers, axes), dtype=np.int32)
