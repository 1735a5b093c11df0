"""What a NATS server sends, taken apart as it arrives, without a task in between.

Messages go straight into their inlets. Everything else is rare and waits in a queue for the client's reading task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import cast

Inlet = Callable[[bytes, bytes, bytes, bytes | None], None]
"""subject, reply subject, payload, header block; called at once, so it must not block"""

log = logging.getLogger("thinwire.brokers.nats")

MAX_LINE = 1 << 20
"""bytes of a line; longer ones are not NATS"""
_MSG, _HMSG = ord("M"), ord("H")


class Intake(asyncio.Protocol):
    """Stands in front of the stream protocol of a connection, and passes on to it all but the data.

    odd: lines that are no messages, and None at the end
    """

    def __init__(self, inlets: Mapping[int, Inlet], behind: asyncio.BaseProtocol) -> None:
        self.odd: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._inlets = inlets
        self._behind = cast(asyncio.Protocol, behind)
        self._parts: list[bytes] = []
        self._missing = 0
        """bytes until it is worth looking again"""

    def data_received(self, data: bytes) -> None:
        if self._parts:
            self._parts.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._parts)
            self._parts.clear()
        try:
            at = self._take_apart(data)
        except (ValueError, IndexError):
            raise ConnectionError("not a NATS server") from None
        if at < len(data):
            self._parts.append(data[at:] if at else data)

    def eof_received(self) -> None:
        """The server has hung up: nothing is said to it any more."""

    def connection_lost(self, error: Exception | None) -> None:
        self.odd.put_nowait(None)
        self._behind.connection_lost(error)

    def pause_writing(self) -> None:
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        self._behind.resume_writing()

    def _take_apart(self, data: bytes) -> int:
        """How much of the data is done with."""
        at, end = 0, len(data)
        while (stop := data.find(b"\r\n", at)) >= 0:
            if data[at] not in (_MSG, _HMSG):
                self.odd.put_nowait(data[at:stop])
                at = stop + 2
                continue
            words = data[at:stop].split()
            begin = stop + 2
            after = begin + int(words[-1])
            if after + 2 > end:
                self._missing = after + 2 - end
                return at
            block = int(words[-2]) if data[at] == _HMSG else 0
            self._hand_on(words, data[begin : begin + block] if block else None, data[begin + block : after])
            at = after + 2
        self._missing = 1
        if end - at > MAX_LINE:
            raise ConnectionError("not a NATS server")
        return at

    def _hand_on(self, words: list[bytes], headers: bytes | None, payload: bytes) -> None:
        inlet = self._inlets.get(int(words[2]))
        if inlet is None:
            return
        reply = words[3] if len(words) == (5 if headers is None else 6) else b""
        try:
            inlet(words[1], reply, payload, headers)
        except Exception:
            log.exception("a message could not be taken in: %r", words[1])
