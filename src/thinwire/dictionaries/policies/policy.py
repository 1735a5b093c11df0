"""What every way to look after a dictionary can do: it is offered messages, and says what to do with the dictionary.

A sampler offers each message that travels and asks for a proposal as often as it likes. A decision is handed out once:
whoever asks again before the next one is due hears `Keep`. What is proposed counts as done, so a sampler that cannot
publish a dictionary begins anew with another policy.

Every proposal carries the numbers behind it, so that a decision can be shown and argued with.

>>> Replace(None, life=None, why={"packed": 210.0, "deflated": 198.0})
Replace(dictionary=None, life=None, why={'packed': 210.0, 'deflated': 198.0})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.training import train

Why = Mapping[str, float | int | str]
"""the numbers behind a decision, by name"""

Trainer = Callable[[Sequence[bytes], int], Dictionary | None]
"""messages and the largest size to a dictionary, or to None where none can be made"""


@dataclass(frozen=True)
class Keep:
    """Nothing is due: everything stays as it is, expiry included."""

    why: Why = field(default_factory=dict)


@dataclass(frozen=True)
class Prolong:
    """The dictionary stays in use; `life`: messages until it is looked at again, None where that is not foreseen."""

    life: int | None
    why: Why = field(default_factory=dict)


@dataclass(frozen=True)
class Replace:
    """Use this dictionary from now on, or none at all (deflate), for `life` messages."""

    dictionary: Dictionary | None
    life: int | None
    why: Why = field(default_factory=dict)


Proposal = Keep | Prolong | Replace

KEEP = Keep()


class Policy(Protocol):
    """One way to look after the dictionary of a topic."""

    name: str

    def offer(self, message: bytes) -> None:
        """A message has travelled."""

    def offer_all(self, messages: Sequence[bytes]) -> None:
        """Several have, in this order: the same as one by one, and cheaper for who looks at few of them."""

    def propose(self) -> Proposal:
        """What to do now."""


class OneByOne:
    """A policy that looks at every message."""

    def offer(self, message: bytes) -> None:
        raise NotImplementedError

    def offer_all(self, messages: Sequence[bytes]) -> None:
        """Each in turn."""
        for message in messages:
            self.offer(message)


def zstd_3(messages: Sequence[bytes], size: int) -> Dictionary | None:
    """The trainer that policies use unless they are given another: the fastest codec, at its usual level."""
    return train(messages, max(size, SMALLEST))


SMALLEST = 256
"""bytes; the trainer makes no smaller dictionary, so where less is asked for this is what comes"""
