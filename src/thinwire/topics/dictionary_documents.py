"""Dictionary documents of a topic: active dictionaries, stored dictionaries, and the decisions of the trainer.

    topic.<topic>    active dictionaries; read by a publisher when it starts, and announced under `tw.dict.<topic>`
    kept.<topic>     all stored dictionaries, with the time after which no publisher uses them
    why.<topic>      the last decisions, with the numbers behind them

>>> reference = DictionaryReference("ab" * 16, expires=1_700_000_600)
>>> ActiveDictionaries("rooms", version=3, dictionaries=(reference,)).last_to_expire(now=1_700_000_000).hash
'abababababababababababababababab'
>>> ActiveDictionaries.decode(ActiveDictionaries("rooms", 3, (reference,)).encode()).dictionaries == (reference,)
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from thinwire.codec.dictionary_bindings import MAX_EXPIRY
from thinwire.topics.document import Document, list_of
from thinwire.topics.document_fields import (
    Count,
    Number,
    StoredName,
    Topic,
    check_mapping,
    choice,
    or_empty,
    pattern,
    whole,
)
from thinwire.topics.names import check_topic

MAX_REFERENCES = 1_024
"""dictionaries in one document, at most"""
MAX_DECISIONS = 50
"""decisions that are stored: the last ones"""
_check_hash = pattern("[0-9a-f]{32}", "32 hexadecimal digits")
Expiry = Annotated[int, whole(most=MAX_EXPIRY)]


def active_dictionaries_key(topic: str) -> str:
    """Key of the active dictionaries of a topic."""
    return f"topic.{check_topic(topic)}"


def stored_dictionaries_key(topic: str) -> str:
    """Key of the stored dictionaries of a topic."""
    return f"kept.{check_topic(topic)}"


def decisions_key(topic: str) -> str:
    """Key of the decisions about a topic's dictionaries."""
    return f"why.{check_topic(topic)}"


@dataclass(frozen=True)
class DictionaryReference(Document):
    """A dictionary by its hash (hex).

    expires: time (seconds since the epoch) after which no publisher uses the dictionary
    parent: hash of another dictionary, if this one is stored as the difference to that one; "" if stored complete
    """

    hash: Annotated[str, _check_hash]
    expires: Expiry
    parent: Annotated[str, or_empty(_check_hash)] = ""

    @property
    def hash_bytes(self) -> bytes:
        """The hash as bytes."""
        return bytes.fromhex(self.hash)


References = Annotated[tuple[DictionaryReference, ...], list_of(DictionaryReference, MAX_REFERENCES)]


@dataclass(frozen=True)
class ActiveDictionaries(Document):
    """The dictionaries that publishers of a topic may use. The version increases with every change.

    sample_count: number of frame bodies that the trainer had sampled when the document was written
    offset: log offset of the message with the last of them
    """

    topic: Topic
    version: Count = 0
    dictionaries: References = ()
    sample_count: Annotated[Count, StoredName("seen")] = 0
    offset: Count = 0

    def last_to_expire(self, now: float) -> DictionaryReference | None:
        """The dictionary to use: the valid one with the latest expiry; None if all have expired."""
        valid = [reference for reference in self.dictionaries if reference.expires > now]
        return max(valid, key=lambda reference: reference.expires, default=None)


@dataclass(frozen=True)
class StoredDictionaries(Document):
    """All dictionaries of a topic in the store, the oldest first."""

    topic: Topic
    dictionaries: References = ()

    def with_reference(self, added: DictionaryReference) -> Self:
        """Add a dictionary, or extend the expiry of one that is stored."""
        by_hash = {reference.hash: reference for reference in self.dictionaries}
        stored = by_hash.get(added.hash)
        if stored is not None:
            added = replace(stored, expires=max(stored.expires, added.expires))
        return replace(self, dictionaries=tuple((by_hash | {added.hash: added}).values()))

    def without(self, hashes: Sequence[str]) -> Self:
        """Remove dictionaries."""
        remaining = tuple(reference for reference in self.dictionaries if reference.hash not in hashes)
        return replace(self, dictionaries=remaining)

    def lineage(self, hash: str) -> list[str]:
        """The hash, the hash of its parent, and so on."""
        parents = {reference.hash: reference.parent for reference in self.dictionaries}
        line = [hash]
        while (parent := parents.get(line[-1], "")) and parent not in line:
            line.append(parent)
        return line


def _check_reasons(field: str, value: Any) -> dict[str, float | int | str]:
    """Check for the reasons of a decision. JSON has no infinity: such numbers are stored as text."""
    reasons = check_mapping(field, value or {})
    return {name: str(v) if isinstance(v, float) and not math.isfinite(v) else v for name, v in reasons.items()}


@dataclass(frozen=True)
class Decision(Document):
    """One decision about a topic's dictionaries and the numbers behind it.

    kind: "withdraw": publishers stop using the active dictionary; "renew": it is announced again after its expiry
    hash, expires: the active dictionary after the decision and its expiry; "" and 0 for none
    transfer_size: bytes of a new dictionary, which every publisher and subscriber fetches
    why: the numbers behind the decision, by name
    """

    kind: Annotated[str, choice("keep", "prolong", "renew", "replace", "withdraw")]
    time: Number
    hash: Annotated[str, or_empty(_check_hash)] = ""
    expires: Expiry = 0
    transfer_size: Annotated[Count, StoredName("travels")] = 0
    why: Annotated[Mapping[str, float | int | str] | None, _check_reasons] = None


@dataclass(frozen=True)
class Decisions(Document):
    """The last decisions about a topic's dictionaries, the newest last."""

    decisions: Annotated[tuple[Decision, ...], list_of(Decision, MAX_DECISIONS)]
