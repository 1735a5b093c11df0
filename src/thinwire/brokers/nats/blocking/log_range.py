"""From received bytes to blocks of messages: columns, and nothing made for a single message but its payload.

A stretch of a log, read through a consumer that the server keeps in its memory for a while.

What may be on its way is bounded in messages and bytes: so much is asked for, and more when half of it has come, so
that the server never waits for a question. Where the connection is cut, the consumer vanishes or a delivery is missing,
a new consumer is made behind the last message taken in.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from thinwire.brokers.nats.blocking.delivery_scanner import (
    BEGIN,
    COLUMNS,
    END,
    NAME,
    NUMBER,
    ODD,
    OFFSET,
    PENDING,
    TIME,
    scan,
)
from thinwire.brokers.nats.blocking.session import Session, now
from thinwire.brokers.nats.blocking.socket_connection import MOST, ConnectionLost, Garbled, NatsMessage, Wire, parse
from thinwire.brokers.nats.connection import letters
from thinwire.brokers.nats.jetstream_api import JetStreamRefusal, connection_error, fields_of, status_of
from thinwire.brokers.nats.streams import NANOSECONDS, Store
from thinwire.brokers.protocol import Block
from thinwire.errors import BrokerRefused, UnknownLog

ROWS = 8192
"""messages of a block, about"""
BLOCK_BYTES = 1 << 20
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
        return self._rows >= ROWS or self._weight >= BLOCK_BYTES

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


AHEAD = 16_384
"""messages that may be on their way"""
REQUEST_BYTES = 4 << 20
"""bytes that may be on their way; more only where messages are larger"""
ROOM = 1 << 16
"""bytes for what travels with a payload: headers and subjects"""
QUIET = 10.0
"""seconds without a delivery after which a new consumer is made"""
INACTIVE = 30
"""seconds that the server keeps a consumer nobody asks"""
_NONE, _TIMEOUT, _OVER, _NOBODY = 404, 408, 409, 503
_ORDERLY = ("completed", "maxbytes")
"""how the server words it that a question has got what it asked for"""


class LogRange:
    """The messages of a log from an offset to another, both included, as far as there are any."""

    def __init__(self, session: Session, log: str, first: int, last: int, subjects: Sequence[str]) -> None:
        self.log, self.subjects = log, tuple(subjects)
        self.whole = self.left = False
        """has everything been taken in, and the server been told?"""
        self._session, self._store = session, Store(session)
        self._next, self._last = max(first, 1), last
        self._created: str | None = None
        self._gathering, self._scanner = Gathering(), Scanner()
        self._until = session.deadline()
        self._quiet, self._weight = QUIET, REQUEST_BYTES
        self._heard = time.monotonic()
        self._forget_consumer()

    def blocks(self) -> Iterator[Block]:
        """In order, each message once; `UnknownLog` where the log is gone."""
        self._look()
        while not self.whole:
            try:
                self._make_consumer()
                yield from self._deliveries()
            except (ConnectionLost, Garbled):
                self._session.hang_up()
                self._forget_consumer()
                self._still_time()
                self._look()
        block = self._gathering.take()
        if block is not None:
            yield block
        self._leave()

    def _look(self) -> None:
        """How far does the log go, and is it still the same?"""
        info = now(self._store.info(self.log, deadline=self._until))
        if self._created is None:
            self._created = info["created"]
            self._last = min(self._last, int(info["state"]["last_seq"]))
            self._next = max(self._next, int(info["state"]["first_seq"]))
        elif info["created"] != self._created:
            raise UnknownLog("it was deleted and made again: start from its beginning", log=self.log)
        self.whole = self._next > self._last

    def _deliveries(self) -> Iterator[Block]:
        while not self.whole:
            self._ask_for_more()
            self._take_in()
            if self._gathering.full and (block := self._gathering.take()):
                yield block
                self._on_data()  # however long the caller took

    def _on_data(self) -> None:
        """Something came: patience begins anew."""
        self._heard = time.monotonic()
        self._until, self._quiet = self._session.deadline(), QUIET

    def _still_time(self) -> None:
        if time.monotonic() >= self._until:
            raise connection_error(TimeoutError(), self._session.url)

    def _make_consumer(self) -> None:
        self._name = letters(5)  # short: it travels with every message
        body = {"stream_name": self.log, "config": self._config(), "action": "create"}
        try:
            verb = f"CONSUMER.CREATE.{self.log}.{self._name}"
            made = now(self._session.api(verb, body, deadline=self._until))
        except JetStreamRefusal as refused:
            raise refused.translated(log=self.log) from None
        self.whole = not int(made.get("num_pending", 1))
        self._inbox = f"{self._session.prefix}.{self._name}"
        self._sid = self._session.subscribe(f"{self._inbox}.*")
        limit = int(self._session.wire(self._until).info.get("max_payload", 0))
        self._weight = max(self._weight, 2 * (limit + ROOM))
        self._heard = time.monotonic()

    def _config(self) -> dict[str, Any]:
        return {
            "name": self._name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._next,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": INACTIVE * NANOSECONDS,
            "filter_subjects": list(self.subjects) or None,
            "mem_storage": True,
            "num_replicas": 1,
        }

    def _forget_consumer(self) -> None:
        self._sid, self._name, self._inbox = 0, "", ""
        self._number = 1
        self._coming = self._coming_bytes = 0

    def _ask_for_more(self) -> None:
        """Once half of what may be on its way has come. The reply subject tells how many a question asked for."""
        if self._coming > AHEAD // 2 and self._coming_bytes > self._weight // 2:
            return
        count = min(AHEAD, self._last - self._next + 1) - self._coming
        if count <= 0:
            return
        weight = max(self._weight - self._coming_bytes, self._weight // 2)
        body = b'{"batch":%d,"max_bytes":%d,"no_wait":true}' % (count, weight)
        self._session.post(f"$JS.API.CONSUMER.MSG.NEXT.{self.log}.{self._name}", body, f"{self._inbox}.{count}")
        self._coming += count
        self._coming_bytes += weight

    def _take_in(self) -> None:
        wire = self._session.wire(self._until)
        piece, why = self._scanner.take(wire, self._sid)
        if piece is not None:
            self._accept(piece)
        elif why == ODD:
            self._take_odd(wire)
        else:
            self._wait(wire)

    def _wait(self, wire: Wire) -> None:
        """Silence: the server is slow, or something was lost, or the connection only looks alive."""
        if not wire.receive(min(self._heard + self._quiet, self._until) - time.monotonic()):
            self._quiet *= 2
            raise ConnectionLost

    def _accept(self, piece: Piece) -> None:
        """Take in what is in order and within the stretch."""
        block, count = piece.block, len(piece.numbers)
        self._coming -= count
        self._coming_bytes -= piece.size
        in_order = int(np.argmin(np.append(piece.numbers == np.arange(self._number, self._number + count), False)))
        within = int(np.searchsorted(block.offsets[:in_order], self._last, "right"))
        if within:
            self._gathering.add(first_of(block, within), piece.size)
            self._next = int(block.offsets[within - 1]) + 1
            self._on_data()
        if within < in_order or self._next > self._last or (in_order == count and not piece.pending):
            self.whole = True
        elif in_order < count:
            raise ConnectionLost
        self._number += count

    def _take_odd(self, wire: Wire) -> None:
        found = parse(wire.data, wire.begin, wire.end)
        if found is None:  # a message for somebody else, of which the end is missing
            self._wait(wire)
            return
        command, wire.begin = found
        if not isinstance(command, NatsMessage):
            self._session.take_line(command)
        elif command.subject.startswith(self._inbox.encode() + b"."):
            self._take_status(command)

    def _take_status(self, message: NatsMessage) -> None:
        """The end of a question, with what it did not get."""
        status, text = status_of(message.headers), (message.headers or b"").decode("utf-8", "replace")
        if status == _NOBODY or (status == _OVER and not any(word in text.lower() for word in _ORDERLY)):
            raise ConnectionLost  # the consumer is gone, or about to go
        if status not in (_NONE, _TIMEOUT, _OVER):
            raise BrokerRefused(text.strip(), log=self.log)
        fields = fields_of(message.headers)
        count = int(message.subject.rpartition(b".")[2])
        missing = min(int(fields.get("Nats-Pending-Messages", count)), count)
        self._coming -= missing
        self._coming_bytes -= int(fields.get("Nats-Pending-Bytes", 0))
        if missing == count and status == _OVER:
            self._weight = min(2 * self._weight, MOST)  # the next message is larger than what was asked for
        if self._coming <= 0:
            self._coming = self._coming_bytes = 0
            self.whole = status != _OVER

    def _leave(self) -> None:
        """The server would forget the consumer by itself, in a while."""
        if self._sid:
            with suppress(ConnectionLost):
                self._session.unsubscribe(self._sid)
                verb = f"$JS.API.CONSUMER.DELETE.{self.log}.{self._name}"
                self._session.post(verb, b"", f"{self._session.prefix}.0")
        self._forget_consumer()
        self.left = True
