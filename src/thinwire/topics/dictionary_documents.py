"""What is said of a topic's dictionaries: those in use, all that are kept, and why it was decided so.

    topic.<topic>    the ones in use: what a publisher reads when it starts, and hears under `tw.dict.<topic>`
    kept.<topic>     all that the store has, with the time after which no publisher uses them
    why.<topic>      the last decisions, with their numbers

>>> said = DictionaryReference("ab" * 16, expires=1_700_000_600)
>>> ActiveDictionaries("rooms", version=3, dictionaries=(said,)).farthest(now=1_700_000_000).hash
'abababababababababababababababab'
>>> ActiveDictionaries.decode(ActiveDictionaries("rooms", 3, (said,)).encode()).dictionaries == (said,)
True
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from thinwire.codec.frame_encoder import MAX_EXPIRY
from thinwire.topics import document_validation as checks
from thinwire.topics.names import check_topic

MAX_SAID = 1_024
"""dictionaries that a document may tell of"""
DECISIONS = 50
"""decisions that are kept"""
_HASH = re.compile(r"[0-9a-f]{32}")
_KINDS = ("keep", "prolong", "renew", "replace", "withdraw")


def in_use_key(topic: str) -> str:
    """Where a publisher finds the dictionaries of a topic."""
    return f"topic.{check_topic(topic)}"


def kept_key(topic: str) -> str:
    """Where it says which dictionaries of a topic the store has."""
    return f"kept.{check_topic(topic)}"


def why_key(topic: str) -> str:
    """Where the decisions about a topic's dictionaries are."""
    return f"why.{check_topic(topic)}"


@dataclass(frozen=True)
class DictionaryReference:
    """A dictionary by its hash (hex).

    expires: the time (seconds since 1970) from which on no publisher uses it
    parent: hash of the one that it is told as a change of, "" where it is told by itself
    """

    hash: str
    expires: int
    parent: str = ""

    def __post_init__(self) -> None:
        for name, value in (("hash", self.hash), ("parent", self.parent or self.hash)):
            if not isinstance(value, str) or not _HASH.fullmatch(value):
                checks.refuse(name, "32 hexadecimal digits", value)
        checks.count("expires", self.expires, MAX_EXPIRY)

    @property
    def name(self) -> bytes:
        """The hash as bytes."""
        return bytes.fromhex(self.hash)


@dataclass(frozen=True)
class ActiveDictionaries:
    """The dictionaries that publishers of a topic may use; every change has a higher version.

    seen, offset: how many messages had been sampled, up to which offset of the log, when this was written
    """

    topic: str
    version: int = 0
    dictionaries: tuple[DictionaryReference, ...] = ()
    seen: int = 0
    offset: int = 0

    def __post_init__(self) -> None:
        checks.topic(self.topic)
        for name in ("version", "seen", "offset"):
            checks.count(name, getattr(self, name))
        object.__setattr__(self, "dictionaries", _read_references("dictionaries", self.dictionaries))

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """The document as it is stored or announced; a `RegistryError` names the field where it cannot be one."""
        return checks.build(cls, checks.read_object(value))

    def encode(self) -> bytes:
        return checks.write_object(asdict(self))

    def farthest(self, now: float) -> DictionaryReference | None:
        """The one to use: its expiry lies farthest ahead. None where all have expired."""
        alive = [said for said in self.dictionaries if said.expires > now]
        return max(alive, key=lambda said: said.expires, default=None)


@dataclass(frozen=True)
class StoredDictionaries:
    """All dictionaries of a topic that the store has, the oldest first."""

    topic: str
    dictionaries: tuple[DictionaryReference, ...] = ()

    def __post_init__(self) -> None:
        checks.topic(self.topic)
        object.__setattr__(self, "dictionaries", _read_references("dictionaries", self.dictionaries))

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """The document as it is stored."""
        return checks.build(cls, checks.read_object(value))

    def encode(self) -> bytes:
        return checks.write_object(asdict(self))

    def with_reference(self, said: DictionaryReference) -> Self:
        """With one more, or with a later time for one that is there."""
        before = {one.hash: one for one in self.dictionaries}
        known = before.get(said.hash)
        if known is not None:
            said = replace(known, expires=max(known.expires, said.expires))
        return replace(self, dictionaries=tuple((before | {said.hash: said}).values()))

    def without(self, hashes: Sequence[str]) -> Self:
        """Without some."""
        return replace(self, dictionaries=tuple(one for one in self.dictionaries if one.hash not in hashes))

    def lineage(self, hash: str) -> list[str]:
        """The hashes of the one, of the one it is a change of, and so on."""
        parents = {one.hash: one.parent for one in self.dictionaries}
        line = [hash]
        while (parent := parents.get(line[-1], "")) and parent not in line:
            line.append(parent)
        return line


@dataclass(frozen=True)
class Decision:
    """What was decided, when, about which dictionary, and the numbers behind it.

    kind: keep, prolong, renew, replace or withdraw; travels: bytes of a new dictionary to every receiver
    """

    kind: str
    time: float
    hash: str = ""
    expires: int = 0
    travels: int = 0
    why: Mapping[str, float | int | str] | None = None

    def __post_init__(self) -> None:
        checks.text("kind", self.kind, *_KINDS)
        checks.number("time", self.time)
        checks.count("expires", self.expires, MAX_EXPIRY)
        checks.count("travels", self.travels)
        object.__setattr__(self, "why", {name: _finite(value) for name, value in (self.why or {}).items()})


def encode_decisions(decisions: Sequence[Decision]) -> bytes:
    """The last decisions as they are stored."""
    return checks.write_object({"decisions": [asdict(one) for one in decisions[-DECISIONS:]]})


def decode_decisions(value: bytes) -> list[Decision]:
    """The decisions again, the newest last."""
    listed = checks.read_object(value).get("decisions")
    if not isinstance(listed, list) or len(listed) > DECISIONS:
        checks.refuse("decisions", f"a list of at most {DECISIONS}", type(listed).__name__)
    return [checks.build(Decision, checks.mapping("decisions", one)) for one in listed]


def _read_references(field: str, value: Any) -> tuple[DictionaryReference, ...]:
    if not isinstance(value, list | tuple) or len(value) > MAX_SAID:
        checks.refuse(field, f"a list of at most {MAX_SAID} dictionaries", type(value).__name__)
    return tuple(
        one if isinstance(one, DictionaryReference) else checks.build(DictionaryReference, checks.mapping(field, one))
        for one in value
    )


def _finite(value: float | int | str) -> float | int | str:
    """JSON knows no infinity."""
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)
