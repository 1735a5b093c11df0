"""What messages weigh on the wire, plain, deflated and with a dictionary, and what that costs the processors.

>>> TWEETS["plain"].mean, TWEETS["dictionary"].mean
(3078.0, 478.0)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from thinwire.dictionaries import Codec, codec_of, train
from thinwire.dictionaries.codecs import Deflate
from thinwire.errors import ConfigError, CorruptFrame

METHODS = ("plain", "deflate", "dictionary")
DICTIONARY = 16_384
"""bytes of the dictionary, at most"""


@dataclass(frozen=True)
class Load:
    """Messages under one method.

    sizes: their bytes, one after the other; pack, unpack: processor seconds that one of them takes
    """

    sizes: tuple[int, ...]
    pack: float = 0.0
    unpack: float = 0.0

    @property
    def mean(self) -> float:
        return sum(self.sizes) / len(self.sizes)


TWEETS = {
    "plain": Load((3078,)),
    "deflate": Load((1222,), pack=210e-6, unpack=83e-6),
    "dictionary": Load((478,), pack=615e-6, unpack=97e-6),
}
"""The stream that the thesis measured limited links with: mean sizes of its table 6.2.1 (twitter-us), and minutes of
table 5.4.4 (DEFLATE and PREDICT, publishers and one subscriber) divided by its 635,037 messages"""


class Plain:
    """Messages as they are."""

    name = "plain"

    def pack(self, message: bytes) -> bytes:
        return message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        if len(packed) > limit:
            raise CorruptFrame("above the limit", length=len(packed), limit=limit)
        return packed


def codecs(training: Sequence[bytes]) -> dict[str, Codec]:
    """A codec for each method; the dictionary is trained on these messages, which must not be those measured."""
    dictionary = train(training, min(DICTIONARY, sum(map(len, training)) // 10))
    if dictionary is None:
        raise ConfigError("too few messages to train a dictionary on", messages=len(training))
    return {"plain": Plain(), "deflate": Deflate(), "dictionary": codec_of(dictionary)}


def weighed(codec: Codec, messages: Sequence[bytes]) -> Load:
    """What these messages become with a codec, and the processor time of each step on this machine."""
    begun = time.process_time()
    packed = [codec.pack(message) for message in messages]
    between = time.process_time()
    for message, small in zip(messages, packed, strict=True):
        codec.unpack(small, len(message))
    ended = time.process_time()
    each = 1 / len(messages)
    return Load(tuple(map(len, packed)), (between - begun) * each, (ended - between) * each)
