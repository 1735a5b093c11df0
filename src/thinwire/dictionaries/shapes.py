"""Shapes: messages with the same fields. Where a topic mixes them, a dictionary for each may pay, or not.

>>> shape_of(b'{"room": "11.1", "t": 20.5}') == shape_of(b'{"t": 3, "room": "2:4"}')
True
>>> shape_of(b'{"room": "11.1"}') == shape_of(b'{"room": "11.1", "t": 20.5}')
False
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from zlib import crc32

from thinwire.dictionaries.codecs import Codec, codec_of
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.training import LEARNING, train
from thinwire.dictionaries.travelling import cost

MOST = 8
"""shapes with a dictionary of their own; the rest share one"""
_FIELD = re.compile(rb'"([^"\\]{1,64})"\s*:')


def shape_of(message: bytes) -> int:
    """A number for the fields that a JSON message has, at any depth; their order and values do not matter.

    It looks for names and colons and reads no JSON: a text that looks like a field counts as one, on all sides alike.
    """
    return crc32(b"\0".join(sorted(set(_FIELD.findall(message)))))


def per_shape(
    messages: Sequence[bytes], size: int, *, life: int, receivers: int = 1, level: int = 3
) -> dict[int, Dictionary]:
    """A dictionary for each of the frequent shapes, or nothing where one for all costs fewer bytes.

    size: of each of them
    life: messages that they will serve
    receivers: ends that each of them must be sent to
    """
    learning = int(LEARNING * len(messages))
    common = train(messages[:learning], size, level=level)
    own = _own(messages[:learning], size, level)
    if common is None or not own:
        return {}
    later = messages[learning:]
    spent = _spent(later, {}, common, life, receivers)
    return own if _spent(later, own, common, life, receivers) < spent else {}


def _own(messages: Sequence[bytes], size: int, level: int) -> dict[int, Dictionary]:
    grouped: dict[int, list[bytes]] = defaultdict(list)
    for message in messages:
        grouped[shape_of(message)].append(message)
    if len(grouped) < 2:
        return {}
    largest = sorted(grouped, key=lambda shape: (-sum(map(len, grouped[shape])), shape))[:MOST]
    trained = {shape: train(grouped[shape], size, level=level) for shape in largest}
    return {shape: dictionary for shape, dictionary in trained.items() if dictionary is not None}


def _spent(
    messages: Sequence[bytes], own: Mapping[int, Dictionary], common: Dictionary, life: int, receivers: int
) -> float:
    """Bytes over the whole life: the messages, and every dictionary to every receiver."""
    others: Codec = codec_of(common)
    codecs = {shape: codec_of(dictionary) for shape, dictionary in own.items()}
    packed = sum(len(codecs.get(shape_of(message), others).pack(message)) for message in messages)
    sent = sum(map(cost, (common, *own.values())))
    return packed * life / len(messages) + sent * receivers
