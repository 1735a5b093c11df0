"""Kernels of assignment: sequential assignment of groups to brokers, and counts of delivered and useful events.

Boxes are ranges of positions in a sample of events, whose bit sets are `EventSample.events_before`. The box of a broker
without groups is empty: it begins after the last event and ends before the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import compiled


@compiled
def count_bits(word: Any) -> Any:
    """Return the number of bits set in a word."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@compiled
def box_events(events_before: Any, begin: Any, end: Any, word: int) -> Any:
    """Return the events of a box among the 64 of a word."""
    events = events_before[0, end[0], word] ^ events_before[0, begin[0], word]
    for axis in range(1, events_before.shape[0]):
        events &= events_before[axis, end[axis], word] ^ events_before[axis, begin[axis], word]
    return events


@compiled
def count_events(events_before: Any, begin: Any, end: Any) -> int:
    """Return the number of events in a box."""
    for axis in range(begin.size):
        if end[axis] <= begin[axis]:
            return 0
    count = 0
    for word in range(events_before.shape[2]):
        count += count_bits(box_events(events_before, begin, end, word))
    return count


@compiled
def covers(begins: Any, ends: Any, broker: int, begin: Any, end: Any) -> bool:
    """Return whether the super-interest of a broker contains a box."""
    is_covered = True
    for axis in range(begin.size):
        is_covered = is_covered and begins[broker, axis] <= begin[axis] and end[axis] <= ends[broker, axis]
    return is_covered


@compiled
def find_cheapest(
    events_before: Any,
    begin: Any,
    end: Any,
    distances: Any,
    limit: float,
    has_capacity: Any,
    price: float,
    begins: Any,
    ends: Any,
    delivered: Any,
) -> int:
    """Return the broker with capacity within the limit that has the lowest cost; -1 if there is none."""
    best, least = -1, np.inf
    low, high = np.empty_like(begin), np.empty_like(end)
    # Brokers whose box need not grow are checked first: this is fast, and the others are rarely cheaper.
    for grows in range(2):
        for broker in range(distances.size):
            cost = price * distances[broker]
            if not has_capacity[broker] or distances[broker] > limit or cost >= least:
                continue
            if grows:
                for axis in range(begin.size):
                    low[axis] = min(begins[broker, axis], begin[axis])
                    high[axis] = max(ends[broker, axis], end[axis])
                cost += count_events(events_before, low, high) - delivered[broker]
            elif not covers(begins, ends, broker, begin, end):
                continue
            if cost < least:
                best, least = broker, cost
    return best


@compiled
def find_closest(distances: Any, has_capacity: Any) -> int:
    """Return the nearest broker with capacity, or the nearest broker if none has capacity."""
    best = -1
    for broker in range(distances.size):
        if has_capacity[broker] and (best < 0 or distances[broker] < distances[best]):
            best = broker
    return best if best >= 0 else int(np.argmin(distances))


@compiled
def fill_distances(centre: Any, brokers: Any, distances: Any) -> None:
    """Write the distance of each broker from a point to `distances`."""
    for broker in range(brokers.shape[0]):
        square = 0.0
        for dimension in range(centre.size):
            square += (centre[dimension] - brokers[broker, dimension]) ** 2
        distances[broker] = np.sqrt(square)


@compiled
def fill_nearest(locations: Any, brokers: Any, nearest: Any, distance: Any) -> None:
    """Write the nearest broker of each location, and its distance."""
    distances = np.empty(brokers.shape[0])
    for row in range(locations.shape[0]):
        fill_distances(locations[row], brokers, distances)
        best = np.argmin(distances)
        nearest[row], distance[row] = best, distances[best]


@compiled
def assign_groups(
    order: Any,
    events_before: Any,
    begin: Any,
    end: Any,
    weight: Any,
    centres: Any,
    brokers: Any,
    limits: Any,
    capacity: Any,
    price: float,
    begins: Any,
    ends: Any,
    chosen: Any,
) -> None:
    """Assign each group, in this order, to the broker within the limits whose super-interest grows least.

    limits: maximum latency of each group; capacity: remaining capacity of each broker, reduced by this function
    price: number of events that may be wasted to save a millisecond of latency
    begins, ends: super-interests, extended by this function; chosen: receives the broker of each group
    """
    distances, delivered = np.empty(brokers.shape[0]), np.empty(brokers.shape[0], dtype=np.int64)
    for broker in range(delivered.size):
        delivered[broker] = count_events(events_before, begins[broker], ends[broker])
    for group in order:
        fill_distances(centres[group], brokers, distances)
        has_capacity = capacity >= weight[group]
        best = find_cheapest(
            events_before,
            begin[group],
            end[group],
            distances,
            limits[group],
            has_capacity,
            price,
            begins,
            ends,
            delivered,
        )
        if best < 0:
            best = find_closest(distances, has_capacity)
        chosen[group] = best
        capacity[best] -= weight[group]
        for axis in range(begin.shape[1]):
            begins[best, axis] = min(begins[best, axis], begin[group, axis])
            ends[best, axis] = max(ends[best, axis], end[group, axis])
        delivered[best] = count_events(events_before, begins[best], ends[best])


@compiled
def count_useful(events_before: Any, begin: Any, end: Any, chosen: Any, needed: Any) -> int:
    """Return the number of deliveries that match a group of the broker. `needed` receives the set of each broker."""
    for group in range(begin.shape[0]):
        if count_events(events_before, begin[group], end[group]):
            for word in range(events_before.shape[2]):
                needed[chosen[group], word] |= box_events(events_before, begin[group], end[group], word)
    count = 0
    for broker in range(needed.shape[0]):
        for word in range(needed.shape[1]):
            count += count_bits(needed[broker, word])
    return count


@compiled
def sum_distances(chosen: Any, weight: Any, centres: Any, brokers: Any, total: Any) -> None:
    """Add to `total[b, c]` the distances of the groups of broker b from broker c."""
    distances = np.empty(brokers.shape[0])
    for group in range(chosen.size):
        fill_distances(centres[group], brokers, distances)
        for broker in range(distances.size):
            total[chosen[group], broker] += weight[group] * distances[broker]


@compiled
def swap_brokers(total: Any, broker_of: Any) -> None:
    """Exchange the brokers of pairs of groups in `broker_of` as long as the sum of their costs falls.

    total: result of `sum_distances`
    """
    has_changed = True
    while has_changed:
        has_changed = False
        for first in range(broker_of.size):
            for second in range(first):
                cost = total[first, broker_of[first]] + total[second, broker_of[second]]
                swapped_cost = total[first, broker_of[second]] + total[second, broker_of[first]]
                if swapped_cost < cost * (1 - 1e-9):
                    broker_of[first], broker_of[second] = broker_of[second], broker_of[first]
                    has_changed = True
