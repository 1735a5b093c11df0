"""Deliveries of a pull consumer: a compiled scanner of the receive buffer, and blocks of messages in columns.

    MSG <subject> <sid> $JS.ACK.<stream>.<consumer>.<delivered>.<offset>.<number>.<time>.<pending> <size>
    HMSG ... <size of the headers> <size>

All other commands are rare and are parsed by `protocol_core`. No object is created per message except its payload.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from thinwire.brokers.nats.blocking.socket_connection import BlockingSocket
from thinwire.brokers.protocol import Block

ROWS = 8192
"""approximate messages of a block"""
BLOCK_BYTES = 1 << 20
"""approximate bytes of a block"""
MORE, FULL, OTHER = 0, 1, 2
"""why the scan ended: incomplete command, table full, another command"""

OFFSET, NUMBER, TIME, PENDING, BEGIN, END, SUBJECT, SUBJECT_END, COLUMNS = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""rows of the table of deliveries; BEGIN and END of the payload"""

_SPACE, _DOT, _RETURN, _M, _H, _ZERO = 32, 46, 13, 77, 72, 48
_ACK = np.frombuffer(b"$JS.ACK.", np.uint8)
_WORDS, _LONG_WORDS = 9, 11
_AT, _LONG_AT = 5, 7
_MOST_DIGITS = 18


@njit(nogil=True)
def _number(data: Any, begin: int, end: int) -> int:
    """Return decimal digits as a number; -1 if they are invalid."""
    if begin >= end or end - begin > _MOST_DIGITS + 1:
        return -1
    value = 0
    for at in range(begin, end):
        digit = data[at] - _ZERO
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value


@njit(nogil=True)
def _split_line(data: Any, at: int, end: int, starts: Any) -> tuple[int, int]:
    """Write the start of each word, and the end of the last plus one, to `starts`. Return word count and line end.

    The count is -1 if the line is incomplete, 0 if it has too many words.
    """
    count = 0
    starts[0] = at
    while at < end:
        letter = data[at]
        if letter == _SPACE:
            count += 1
            if count >= starts.size - 1:
                return 0, at
            starts[count] = at + 1
        elif letter == _RETURN:
            starts[count + 1] = at + 1
            return count + 1, at
        at += 1
    return -1, at


@njit(nogil=True)
def _parse_reply(data: Any, begin: int, end: int, dots: Any, table: Any, row: int) -> bool:
    """Write offset, number, time and pending of a reply subject to `table`. Return False if it is another subject."""
    if end - begin < _ACK.size:
        return False
    for k in range(_ACK.size):
        if data[begin + k] != _ACK[k]:
            return False
    count = 1
    dots[0] = begin
    for at in range(begin, end):
        if data[at] == _DOT:
            if count >= dots.size - 1:
                return False
            dots[count] = at + 1
            count += 1
    dots[count] = end + 1
    if count != _WORDS and count < _LONG_WORDS:
        return False
    first = _AT if count == _WORDS else _LONG_AT
    for k in range(4):
        value = _number(data, dots[first + k], dots[first + k + 1] - 1)
        if value < 0:
            return False
        table[k, row] = value
    return True


@njit(cache=True, nogil=True)
def scan(data: Any, at: int, end: int, sid: int, table: Any) -> tuple[int, int, int]:
    """Fill the table. Return number of deliveries, index of the first unread byte, and reason of the end."""
    count = 0
    starts, dots = np.empty(8, np.int64), np.empty(16, np.int64)
    while count < table.shape[1]:
        if at >= end:
            return count, at, MORE
        has_headers = data[at] == _H
        if not has_headers and data[at] != _M:
            return count, at, OTHER
        words, stop = _split_line(data, at, end, starts)
        if words < 0:
            return count, at, MORE
        if words != (6 if has_headers else 5) or _number(data, starts[2], starts[3] - 1) != sid:
            return count, at, OTHER
        size = _number(data, starts[words - 1], stop)
        headers_size = _number(data, starts[4], starts[5] - 1) if has_headers else 0
        if (
            headers_size < 0
            or size < headers_size
            or not _parse_reply(data, starts[3], starts[4] - 1, dots, table, count)
        ):
            return count, at, OTHER
        after = stop + 2 + size
        if after + 2 > end:
            return count, at, MORE
        table[BEGIN, count], table[END, count] = stop + 2 + headers_size, after
        table[SUBJECT, count], table[SUBJECT_END, count] = starts[1], starts[2] - 1
        count += 1
        at = after + 2
    return count, at, FULL


class Deliveries(NamedTuple):
    """Consecutive deliveries of a consumer.

    numbers: delivery numbers; pending: messages after the last one; size: bytes on the wire
    """

    block: Block
    numbers: npt.NDArray[np.int64]
    pending: int
    size: int


class DeliveryReader:
    """Takes deliveries from the buffer of a socket. Its table is reused."""

    def __init__(self) -> None:
        self._table = np.empty((COLUMNS, ROWS), np.int64)

    def take(self, socket: BlockingSocket, sid: int) -> tuple[Deliveries | None, int]:
        """Return the deliveries for a subscription at the begin of the buffer, and why they end: MORE, FULL, OTHER."""
        begin, data = socket.begin, np.frombuffer(socket.data, np.uint8)
        count, after, reason = scan(data, begin, socket.end, sid, self._table)
        if not count:
            return None, reason
        raw = bytes(memoryview(socket.data)[begin:after])
        socket.begin = after
        return self._deliveries(raw, begin, count), reason

    def _deliveries(self, raw: bytes, begin: int, count: int) -> Deliveries:
        table = self._table[:, :count]
        subjects, payloads = (_cut(raw, table[first : first + 2] - begin) for first in (SUBJECT, BEGIN))
        names = {subject: subject.decode() for subject in set(subjects)}
        block = Block(
            table[OFFSET].copy(),
            table[TIME] // 1000 / 1e6,  # whole microseconds, which a float represents exactly
            [names[subject] for subject in subjects],
            payloads,
        )
        return Deliveries(block, table[NUMBER].copy(), int(table[PENDING, -1]), len(raw))


def _cut(raw: bytes, bounds: npt.NDArray[np.int64]) -> list[bytes]:
    return [raw[first:last] for first, last in zip(*bounds.tolist(), strict=True)]


class BlockBuffer:
    """Collects small blocks, as the server sends them, into large ones."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._rows = self._size = 0

    @property
    def is_full(self) -> bool:
        return self._rows >= ROWS or self._size >= BLOCK_BYTES

    def add(self, block: Block, size: int) -> None:
        if len(block.payloads):
            self._blocks.append(block)
            self._rows += len(block.payloads)
            self._size += size

    def take(self) -> Block | None:
        """Return the content as one block, or None, and clear the buffer."""
        blocks, self._blocks, self._rows, self._size = self._blocks, [], 0, 0
        if len(blocks) <= 1:
            return blocks[0] if blocks else None
        return Block(
            np.concatenate([block.offsets for block in blocks]),
            np.concatenate([block.times for block in blocks]),
            [subject for block in blocks for subject in block.subjects],
            [payload for block in blocks for payload in block.payloads],
        )
