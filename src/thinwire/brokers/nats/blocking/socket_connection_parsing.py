"""What a NATS server sends, one command at a time: for answers, and for whatever else is rare.

>>> data = bytearray(b"MSG in.1 7 3\\r\\nabc\\r\\nPING\\r\\n")
>>> parse(data, 0, len(data))
(Message(subject=b'in.1', reply=b'', headers=None, payload=b'abc'), 19)
>>> parse(data, 19, len(data))
(b'PING', 25)
>>> parse(data, 0, 16) is None
True
"""

from __future__ import annotations

from typing import NamedTuple

from thinwire.brokers.nats.client_intake import MAX_LINE

_MSG, _HMSG = ord("M"), ord("H")


class Garbled(Exception):
    """This is no NATS server, or no longer one."""


class Message(NamedTuple):
    subject: bytes
    reply: bytes
    headers: bytes | None
    payload: bytes


def parse(data: bytearray, begin: int, end: int) -> tuple[Message | bytes, int] | None:
    """The command that begins here and where the next one does; a line where it is no message, None if incomplete."""
    stop = data.find(b"\r\n", begin, end)
    if stop < 0:
        if end - begin > MAX_LINE:
            raise Garbled
        return None
    line = bytes(data[begin:stop])
    if data[begin] not in (_MSG, _HMSG):
        return line, stop + 2
    try:
        return _message(data, line, stop + 2, end)
    except (ValueError, IndexError):
        raise Garbled from None


def _message(data: bytearray, line: bytes, begin: int, end: int) -> tuple[Message, int] | None:
    words = line.split()
    after = begin + int(words[-1])
    if after + 2 > end:
        return None
    headed = line[0] == _HMSG
    block = int(words[-2]) if headed else 0
    reply = words[3] if len(words) == (6 if headed else 5) else b""
    headers = bytes(data[begin : begin + block]) if headed else None
    return Message(words[1], reply, headers, bytes(data[begin + block : after])), after + 2
