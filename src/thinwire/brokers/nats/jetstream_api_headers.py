"""The header block of a NATS message: a status line, then names and values.

>>> block = b"NATS/1.0 404 Message Not Found\\r\\n\\r\\n"
>>> status_of(block), status_of(b"NATS/1.0\\r\\nNats-Sequence: 7\\r\\n\\r\\n")
(404, 0)
>>> fields_of(b"NATS/1.0\\r\\nNats-Sequence: 7\\r\\n\\r\\n")
{'Nats-Sequence': '7'}
>>> headers_block({"KV-Operation": "DEL"})
b'NATS/1.0\\r\\nKV-Operation: DEL\\r\\n\\r\\n'
"""

from __future__ import annotations

from collections.abc import Mapping

LEAD = b"NATS/1.0"

EXPECT = "Nats-Expected-Last-Subject-Sequence"
EXPECT_WITHIN = "Nats-Expected-Last-Subject-Sequence-Subject"
OPERATION = "KV-Operation"


def status_of(block: bytes | None) -> int:
    """The status of a message; 0 if it has none."""
    if block is None or block[8:9] != b" ":
        return 0
    digits = block[9:12]
    return int(digits) if digits.isdigit() else 0


def fields_of(block: bytes | None) -> dict[str, str]:
    """Names and values; the last one where a name comes twice."""
    if block is None:
        return {}
    lines = block.decode("utf-8", "replace").split("\r\n")[1:]
    return {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


def headers_block(fields: Mapping[str, str]) -> bytes:
    """The block of bytes that goes before the payload."""
    return b"%b\r\n%b\r\n" % (LEAD, b"".join(f"{name}: {value}\r\n".encode() for name, value in fields.items()))


def expectation(offset: int, within: str = "") -> bytes:
    """Insist that the last message under the subject, or under a pattern, has this offset."""
    fields = {EXPECT: str(offset)}
    if within:
        fields[EXPECT_WITHIN] = within
    return headers_block(fields)
