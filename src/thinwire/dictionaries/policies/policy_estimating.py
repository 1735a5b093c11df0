"""How many bytes messages would take: what all policies judge dictionaries by."""

from __future__ import annotations

from collections.abc import Sequence

from thinwire.dictionaries.codecs import Codec, Deflate

SLOT = 1
"""bytes of every message that name its dictionary"""
DEFLATE = Deflate()
"""what a message without a dictionary is packed with"""
JUDGING = 0.3
"""share of the messages, the latest ones, that dictionaries are judged by"""


def packed(messages: Sequence[bytes], codec: Codec) -> int:
    """Bytes of the messages on the wire, slots included.

    >>> packed([b"a" * 100, b""], DEFLATE)
    8
    """
    return sum(len(codec.pack(message)) for message in messages) + SLOT * len(messages)


def reduction(messages: Sequence[bytes], codec: Codec) -> float:
    """BR: bytes saved in per cent, slots included; 0 where there is nothing to save."""
    before = sum(map(len, messages))
    return 100 * (1 - packed(messages, codec) / before) if before else 0.0


def latest(messages: Sequence[bytes]) -> Sequence[bytes]:
    """The part that judges: the last 30 %, at least one message."""
    return messages[min(len(messages) - 1, int((1 - JUDGING) * len(messages))) :]
