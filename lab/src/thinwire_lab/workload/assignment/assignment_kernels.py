"""Kernels of assignment: giving groups to brokers one by one, and counting the events that brokers get and need.

Boxes are places in the order of a sample of events (`deliveries`); a broker without groups has none: it begins behind
the last event and ends before the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import compiled


@compiled
def ones(word: Any) -> Any:
    """How many bits of a word are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@compiled
def inside(until: Any, begin: Any, end: Any, word: int) -> Any:
    """The events of a box among 64 of them."""
    found = until[0, end[0], word] ^ until[0, begin[0], word]
    for axis in range(1, until.shape[0]):
        found &= until[axis, end[axis], word] ^ until[axis, begin[axis], word]
    return found


@compiled
def held(until: Any, begin: Any, end: Any) -> int:
    """How many events a box holds."""
    for axis in range(begin.size):
        if end[axis] <= begin[axis]:
            return 0
    count = 0
    for word in range(until.shape[2]):
        count += ones(inside(until, begin, end, word))
    return count


@compiled
def within(begins: Any, ends: Any, broker: int, begin: Any, end: Any) -> bool:
    """Is a box inside the super-interest of a broker?"""
    holds = True
    for axis in range(begin.size):
        holds = holds and begins[broker, axis] <= begin[axis] and end[axis] <= ends[broker, axis]
    return holds


@compiled
def cheapest(
    until: Any, begin: Any, end: Any, near: Any, limit: float, free: Any, price: float, begins: Any, ends: Any, has: Any
) -> int:
    """The broker with room, within the limit, that costs least; -1 where there is none."""
    best, least = -1, np.inf
    low, high = np.empty_like(begin), np.empty_like(end)
    # Those that need not grow come first: they are quick to judge, and mostly nothing else can be cheaper.
    for growing in range(2):
        for broker in range(near.size):
            cost = price * near[broker]
            if not free[broker] or near[broker] > limit or cost >= least:
                continue
            if growing:
                for axis in range(begin.size):
                    low[axis] = min(begins[broker, axis], begin[axis])
                    high[axis] = max(ends[broker, axis], end[axis])
                cost += held(until, low, high) - has[broker]
            elif not within(begins, ends, broker, begin, end):
                continue
            if cost < least:
                best, least = broker, cost
    return best


@compiled
def closest(near: Any, free: Any) -> int:
    """The nearest broker with room; the nearest of all where none has any."""
    best = -1
    for broker in range(near.size):
        if free[broker] and (best < 0 or near[broker] < near[best]):
            best = broker
    return best if best >= 0 else int(np.argmin(near))


@compiled
def measure(centre: Any, brokers: Any, near: Any) -> None:
    """How far every broker is from a group."""
    for broker in range(brokers.shape[0]):
        square = 0.0
        for lane in range(centre.size):
            square += (centre[lane] - brokers[broker, lane]) ** 2
        near[broker] = np.sqrt(square)


@compiled
def find_homes(places: Any, brokers: Any, home: Any, distance: Any) -> None:
    """The nearest broker of every place, and how far it is."""
    near = np.empty(brokers.shape[0])
    for place in range(places.shape[0]):
        measure(places[place], brokers, near)
        best = np.argmin(near)
        home[place], distance[place] = best, near[best]


@compiled
def give(
    order: Any,
    until: Any,
    begin: Any,
    end: Any,
    weight: Any,
    centres: Any,
    brokers: Any,
    limits: Any,
    room: Any,
    price: float,
    begins: Any,
    ends: Any,
    chosen: Any,
) -> None:
    """Gives each group, in this order, to the broker whose super-interest must grow least, within limits.

    limits: the latency that each group accepts; room: how much more each broker takes, made less here
    price: events that a millisecond of latency is worth
    begins, ends: the super-interests, made larger here; chosen: the broker of each group
    """
    near, has = np.empty(brokers.shape[0]), np.empty(brokers.shape[0], dtype=np.int64)
    for broker in range(has.size):
        has[broker] = held(until, begins[broker], ends[broker])
    for group in order:
        measure(centres[group], brokers, near)
        free = room >= weight[group]
        best = cheapest(until, begin[group], end[group], near, limits[group], free, price, begins, ends, has)
        if best < 0:
            best = closest(near, free)
        chosen[group] = best
        room[best] -= weight[group]
        for axis in range(begin.shape[1]):
            begins[best, axis] = min(begins[best, axis], begin[group, axis])
            ends[best, axis] = max(ends[best, axis], end[group, axis])
        has[best] = held(until, begins[best], ends[best])


@compiled
def count_useful(until: Any, begin: Any, end: Any, chosen: Any, needed: Any) -> int:
    """Deliveries that some group of the broker matches; `needed`, all zeros, becomes the set of each broker."""
    for group in range(begin.shape[0]):
        if held(until, begin[group], end[group]):
            for word in range(until.shape[2]):
                needed[chosen[group], word] |= inside(until, begin[group], end[group], word)
    count = 0
    for broker in range(needed.shape[0]):
        for word in range(needed.shape[1]):
            count += ones(needed[broker, word])
    return count


@compiled
def travel(chosen: Any, weight: Any, centres: Any, brokers: Any, total: Any) -> None:
    """Adds up, for the groups of each broker, how far they would have to every broker in its stead."""
    near = np.empty(brokers.shape[0])
    for group in range(chosen.size):
        measure(centres[group], brokers, near)
        for broker in range(near.size):
            total[chosen[group], broker] += weight[group] * near[broker]


@compiled
def exchange(total: Any, seat: Any) -> None:
    """Lets pairs change their seats while both together gain; `total` is what each pays for each seat."""
    moved = True
    while moved:
        moved = False
        for one in range(seat.size):
            for other in range(one):
                now = total[one, seat[one]] + total[other, seat[other]]
                then = total[one, seat[other]] + total[other, seat[one]]
                if then < now * (1 - 1e-9):
                    seat[one], seat[other] = seat[other], seat[one]
                    moved = True
