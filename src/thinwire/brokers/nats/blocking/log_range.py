"""From received bytes to blocks of messages: columns, and nothing made for a single message but its payload."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from thinwire.brokers.nats.blocking.delivery_scanner import (
    BEGIN,
    COLUMNS,
    END,
    NAME,
    NUMBER,
    OFFSET,
    PENDING,
    TIME,
    scan,
)
from thinwire.brokers.nats.blocking.socket_connection_wire import Wire
from thinwire.brokers.protocol_source import Block

ROWS = 8192
"""messages of a block, about"""
WEIGHT = 1 << 20
"""bytes of a block, about"""

Column = npt.NDArray[np.int64]


class Piece(NamedTuple):
    """Deliveries as they were found together.

    numbers: how the consumer counts them; pending: how many follow the last one; size: in bytes, as they travelled
    """

    block: Block
    numbers: Column
    pending: int
    size: int


class Scanner:
    """Takes deliveries off a wire; its columns are used again and again."""

    def __init__(self) -> None:
        self._table = np.empty((COLUMNS, ROWS), np.int64)
        self._names = np.empty((ROWS, 2), np.int64)
        self._slots = np.empty(2 * ROWS, np.int32)

    def take(self, wire: Wire, sid: int) -> tuple[Piece | None, int]:
        """What waits there under this number, and why there is no more (`kernel.MORE`, `FULL`, `ODD`)."""
        begin, data = wire.begin, np.frombuffer(wire.data, np.uint8)
        count, after, why, known = scan(data, begin, wire.end, sid, self._table, self._names, self._slots)
        if not count:
            return None, why
        raw = bytes(memoryview(wire.data)[begin:after])
        wire.begin = after
        return self._piece(raw, begin, count, known), why

    def _piece(self, raw: bytes, begin: int, count: int, known: int) -> Piece:
        table = self._table[:, :count]
        names = [raw[first:last].decode() for first, last in (self._names[:known] - begin).tolist()]
        starts, ends = (table[BEGIN] - begin).tolist(), (table[END] - begin).tolist()
        block = Block(
            table[OFFSET].copy(),
            table[TIME] // 1000 / 1e6,  # whole microseconds, which a float holds exactly
            [names[index] for index in table[NAME].tolist()],
            [raw[first:last] for first, last in zip(starts, ends, strict=True)],
        )
        return Piece(block, table[NUMBER].copy(), int(table[PENDING, -1]), len(raw))


class Gathering:
    """Pieces until they are worth handing on: a server sends them in small ones."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._rows = self._weight = 0

    @property
    def full(self) -> bool:
        return self._rows >= ROWS or self._weight >= WEIGHT

    def add(self, block: Block, weight: int) -> None:
        if len(block.payloads):
            self._blocks.append(block)
            self._rows += len(block.payloads)
            self._weight += weight

    def take(self) -> Block | None:
        """All of it as one block; None if there is nothing."""
        blocks, self._blocks, self._rows, self._weight = self._blocks, [], 0, 0
        if len(blocks) <= 1:
            return blocks[0] if blocks else None
        return Block(
            np.concatenate([block.offsets for block in blocks]),
            np.concatenate([block.times for block in blocks]),
            [subject for block in blocks for subject in block.subjects],
            [payload for block in blocks for payload in block.payloads],
        )


def first_of(block: Block, count: int) -> Block:
    """The first so many messages of a block."""
    if count >= len(block.payloads):
        return block
    return Block(block.offsets[:count], block.times[:count], block.subjects[:count], block.payloads[:count])
