"""Candidates for the next dictionary: what each would save over its life, and what it would cost to spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from thinwire.dictionaries.accounting import Topology
from thinwire.dictionaries.codecs import Codec, Deflate, Preset
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.maintenance.estimating import DEFLATE, latest, packed
from thinwire.dictionaries.maintenance.policy import Trainer

JUDGES = 200
"""messages of the later part that the present dictionary is judged by, spread evenly"""
LEARNED, LEARNED_FOR_A_BYTE = 1 << 17, 32
"""bytes of messages that a dictionary is made from, and for every byte of its own where those are more"""
FARTHER = 0.75
"""share of a saving that a size is credited with against a smaller one: judges stand right behind the messages that
were learned from, and farther away the rarer parts of a dictionary serve less"""
LEAST = 150
"""bytes that even the smallest dictionary takes to travel"""


@dataclass(frozen=True)
class Outcome:
    """One candidate.

    size: bytes in which it travels
    gain: bytes a message that it packs smaller than what is in use
    saving, cost: bytes, over its life and to every receiver
    """

    dictionary: Dictionary
    size: int
    gain: float
    saving: float
    cost: float


class Trial:
    """The candidates of one look.

    messages: the sample, oldest first; the later part judges
    codec: what is in use
    life: messages that a new dictionary is expected to live for
    parent: the dictionary in use, which receivers have
    """

    def __init__(
        self,
        messages: Sequence[bytes],
        codec: Codec,
        topology: Topology,
        life: float,
        parent: Dictionary | None,
        train: Trainer,
    ) -> None:
        self.messages = messages
        self.codec = codec
        self.topology = topology
        self.life = life
        self.parent = parent
        self.train = train
        self.outcomes: dict[int, Outcome] = {}
        later = latest(messages)
        self.mean = sum(map(len, later)) / len(later)
        self._judges = later[:: -(-len(later) // JUDGES)]

    @cached_property
    def now(self) -> float:
        """Bytes of a message as it is packed at present, slot included."""
        return self._packed(self.codec)

    @cached_property
    def deflated(self) -> float:
        """Bytes of a message without any dictionary, slot included."""
        return self._packed(DEFLATE)

    @property
    def hopeless(self) -> bool:
        """Even a dictionary that packed messages to nothing would not pay."""
        return self.now * self.topology.copies * self.life <= LEAST * self.topology.receivers

    def worth(self, size: int) -> float | None:
        """What to choose sizes by: most of the saving, less the cost; None where no dictionary can be made."""
        made = self.train(self._learned(size), size)
        if made is None or made.facts is None:
            return None
        gain = self.now - self.mean * (1 - made.facts.ratio / 100)
        travels = at_most(made, self.parent)
        saving = gain * self.topology.copies * self.life
        outcome = Outcome(made, travels, gain, saving, travels * self.topology.receivers)
        self.outcomes[size] = outcome
        return FARTHER * outcome.saving - outcome.cost

    def _learned(self, size: int) -> Sequence[bytes]:
        """The messages that a dictionary of this size is made from: evenly spread, as many as make a difference."""
        bytes_ = sum(map(len, self.messages))
        return self.messages[:: max(1, bytes_ // max(LEARNED, LEARNED_FOR_A_BYTE * size))]

    @property
    def promising(self) -> bool:
        """Some candidate comes near to paying: a larger sample may make it pay."""
        return any(2 * outcome.saving > outcome.cost for outcome in self.outcomes.values())

    def breaks_even(self, gain: float, size: int) -> float:
        """Messages after which a dictionary has paid that travels in `size` bytes and gains so much a message."""
        return size * self.topology.receivers / (gain * self.topology.copies) if gain > 0 else inf

    def next_to_pay(self, adopted: Dictionary | None) -> float:
        """The shortest life with which a candidate that was left pays, beside the one that was adopted."""
        base = max((o.gain for o in self.outcomes.values() if o.dictionary is adopted), default=0.0)
        return min((self.breaks_even(o.gain - base, o.size) for o in self.outcomes.values()), default=inf)

    def _packed(self, codec: Codec) -> float:
        return packed(self._judges, codec) / len(self._judges) * self._evened

    @cached_property
    def _evened(self) -> float:
        """The judges may be larger or smaller than the later messages are on average."""
        return self.mean * len(self._judges) / max(sum(map(len, self._judges)), 1)


def at_most(dictionary: Dictionary, parent: Dictionary | None) -> int:
    """Bytes in which a dictionary travels, or a few more: what can be found out without the slowest packing.

    >>> at_most(Dictionary(b"temperature" * 100, "zlib", level=6, largest=64), None)
    47
    """
    packers: list[Codec] = [Deflate(9)]
    if parent is not None:
        packers.append(Preset(parent.content, 9))
    return min(len(packer.pack(dictionary.content)) for packer in packers) + _FORM


_FORM = 24
"""bytes that a dictionary travels with beside its content"""
