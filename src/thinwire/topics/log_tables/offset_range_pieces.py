"""Blocks of a log taken apart: where offsets jump, and by publisher."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from thinwire.brokers.protocol_source import Block
from thinwire.topics.names import is_key, publisher_in


def pieces(block: Block, expected: int) -> Iterator[Block]:
    """The block, cut wherever messages are missing; those before `expected` are left out, for they came before."""
    start = int(np.searchsorted(block.offsets, expected))
    jumps = np.flatnonzero(np.diff(block.offsets[start:]) != 1) + start + 1
    cuts = [start, *jumps.tolist(), len(block.payloads)]
    for first, last in pairwise(cuts):
        if first < last:
            yield part(block, first, last)


def by_publisher(piece: Block) -> dict[str, Block]:
    """The messages of each publisher, in their order; the very block where there is only one."""
    names = {subject: publisher_in(subject) for subject in set(piece.subjects)}
    if len(set(names.values())) == 1:
        return {next(iter(names.values())): piece}
    places: dict[str, list[int]] = {}
    for place, subject in enumerate(piece.subjects):
        places.setdefault(names[subject], []).append(place)
    return {name: _chosen(piece, chosen) for name, chosen in sorted(places.items())}


def key_places(block: Block) -> list[int]:
    """Which messages begin a round of key frames?"""
    if not any(map(is_key, set(block.subjects))):
        return []
    return [place for place, subject in enumerate(block.subjects) if is_key(subject)]


def part(block: Block, first: int, last: int) -> Block:
    """Some of the messages one after the other; the very block where it is all of them."""
    if last - first == len(block.payloads):
        return block
    offsets, times, subjects, payloads = block
    return Block(offsets[first:last], times[first:last], subjects[first:last], payloads[first:last])


def _chosen(block: Block, places: list[int]) -> Block:
    return Block(
        block.offsets[places],
        block.times[places],
        [block.subjects[place] for place in places],
        [block.payloads[place] for place in places],
    )
