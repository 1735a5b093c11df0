"""Trainer of the policies of the thesis, and BR (bytes saved in per cent, `byte_account`) of a sample of messages."""

from __future__ import annotations

from collections.abc import Sequence

from thinwire.dictionaries.codecs import Codec
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.policies.policy import packed
from thinwire.dictionaries.training import SMALLEST, train


def zstd_3(messages: Sequence[bytes], size: int) -> Dictionary | None:
    """Return a dictionary of about `size` bytes, at least 256, for zstd at level 3; None for too few messages."""
    return train(messages, max(size, SMALLEST))


def reduction(messages: Sequence[bytes], codec: Codec) -> float:
    """Return BR: bytes saved in per cent, slots included; 0 if there are no bytes."""
    before = sum(map(len, messages))
    return 100 * (1 - packed(messages, codec) / before) if before else 0.0
