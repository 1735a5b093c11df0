"""Subscribers as an assignment sees them: those with one interest who are nearest to one broker go together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire_lab.workload.assignment.assignment_kernels import find_homes
from thinwire_lab.workload.random_rows_randomness import Floats, Rows


class Population(NamedTuple):
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


class Demands(NamedTuple):
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


def demands(population: Population) -> tuple[Demands, Rows]:
    """The groups of a population, and of each subscription its group."""
    given = population
    given.check()
    home, way = nearest(given.places, given.brokers)
    _, first, of = np.unique(names_of(given.low, given.high, home), return_index=True, return_inverse=True)
    weight = np.bincount(of).astype(np.float64)
    centres = np.stack([np.bincount(of, lane) for lane in given.places.T], axis=1) / weight[:, None]
    distance = np.bincount(of, way) / weight
    groups = (given.low[first], given.high[first], weight, home[first], distance, centres)
    return Demands(*groups, given.brokers, given.events), of


def _check(low: Floats, high: Floats, places: Floats, brokers: Floats, events: Floats) -> None:
    if len(low) != len(places) or low.shape != high.shape:
        raise ConfigError("a rectangle and a place for every subscription", rectangles=len(low), places=len(places))
    counts = {"subscriptions": len(low), "brokers": len(brokers), "events": len(events)}
    if not all(counts.values()):
        raise ConfigError("at least one subscription, one broker and one event", **counts)
