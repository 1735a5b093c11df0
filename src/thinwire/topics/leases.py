"""Who looks after which topic: leases that their holders keep alive by writing them again and again.

A lease is a document in one bucket. Its holder rewrites it every fifth of the term, insisting on the revision it wrote
last; whoever has seen the same revision for a whole term, by its own clock, may take it over, insisting on that
revision. No two machines' clocks are ever compared, and of two who reach for a lease the broker lets one win.

A lease elects, it does not protect: a holder that was paused may go on for a moment. What protects is the epoch, which
grows with every change of hands and travels in every message, and that messages insist on the one before.

>>> leases = Leases(term=2.5)
>>> leases.saw(BucketEntry("lease.rooms", LeaseDocument("t1", epoch=4, beat=7).encode(), revision=12), now=100.0)
>>> leases.is_free("rooms", now=102.0), leases.is_free("rooms", now=102.5), leases.epoch("rooms")
(False, True, 4)
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict, dataclass
from typing import NamedTuple

from thinwire.brokers.protocol import NOTHING, Bucket, BucketEntry
from thinwire.errors import Conflict, RegistryError, Superseded
from thinwire.topics import document_validation as checks

BEATS = 5
"""times in a term that a holder says it is there"""
_LEASE = "lease."
_MAX_EPOCH = (1 << 31) - 1

_log = logging.getLogger("thinwire.services")


def lease_key(topic: str) -> str:
    """Where it says who looks after a topic."""
    return _LEASE + topic


def member_key(kind: str, name: str) -> str:
    """Where one of those that share topics says that it is there."""
    return f"{kind}.{name}"


def translator_key(name: str) -> str:
    """Where a translator says that it is there."""
    return member_key("translator", name)


@dataclass(frozen=True)
class LeaseDocument:
    """Who holds a lease ("" for nobody), how often it changed hands, and how often the holder has said it is there."""

    holder: str
    epoch: int = 0
    beat: int = 0

    def __post_init__(self) -> None:
        if self.holder:
            checks.check_token("holder", self.holder)
        checks.count("epoch", self.epoch, _MAX_EPOCH)
        checks.count("beat", self.beat)

    @classmethod
    def decode(cls, value: bytes) -> LeaseDocument:
        """The document as it is stored; a `RegistryError` names the field where it cannot be one."""
        return checks.build(cls, checks.read_object(value))

    def encode(self) -> bytes:
        return checks.write_object(asdict(self))


class _Sighting(NamedTuple):
    """A document as it was last seen to change, and when that was; None where it was deleted."""

    document: LeaseDocument | None
    revision: int
    since: float


class Leases:
    """What has been seen of leases, and of those that share topics. No I/O; `now` is always this process's own clock.

    term: seconds without a change after which a holder is gone
    kind: what those are called that share the topics
    """

    def __init__(self, term: float, kind: str = "translator") -> None:
        self.term = term
        self.kind = kind
        self._seen: dict[str, _Sighting] = {}
        self._epochs: dict[str, int] = {}

    def saw(self, entry: BucketEntry, now: float) -> None:
        """A document was stored or deleted."""
        before = self._seen.get(entry.key)
        if before is not None and entry.revision <= before.revision:
            return
        document = _read(entry)
        self._seen[entry.key] = _Sighting(document, entry.revision, now)
        if document is not None:
            self._epochs[entry.key] = max(document.epoch, self._epochs.get(entry.key, 0))

    def holder(self, topic: str) -> str:
        """Who holds a topic, dead or alive; "" for nobody."""
        seen = self._seen.get(lease_key(topic))
        return seen.document.holder if seen is not None and seen.document is not None else ""

    def epoch(self, topic: str) -> int:
        """The highest epoch ever seen of a topic; it outlives its document."""
        return self._epochs.get(lease_key(topic), 0)

    def quiet(self, topic: str, now: float) -> float:
        """For how many seconds a topic's lease has not changed."""
        return self._quiet(lease_key(topic), now)

    def is_free(self, topic: str, now: float) -> bool:
        """Is a topic nobody's: given back, never taken, or not kept alive for a term?"""
        return not self.holder(topic) or self.quiet(topic, now) >= self.term

    def members(self, now: float) -> set[str]:
        """Those that are there."""
        return {name for name, quiet in self._announced(now).items() if quiet < self.term}

    def find_expired(self, now: float, terms: float = 10.0) -> set[str]:
        """Those that said they were there, and have not for so many terms."""
        return {name for name, quiet in self._announced(now).items() if quiet >= terms * self.term}

    def revision(self, topic: str) -> int:
        """What taking a topic must insist on."""
        seen = self._seen.get(lease_key(topic))
        return seen.revision if seen is not None and seen.document is not None else NOTHING

    def forget(self, topic: str) -> None:
        """There is no lease of a topic; its epoch stays known."""
        self._seen.pop(lease_key(topic), None)

    def _announced(self, now: float) -> dict[str, float]:
        prefix = member_key(self.kind, "")
        keys = [key for key, seen in self._seen.items() if key.startswith(prefix) and seen.document is not None]
        return {key.removeprefix(prefix): self._quiet(key, now) for key in keys}

    def _quiet(self, key: str, now: float) -> float:
        seen = self._seen.get(key)
        return now - seen.since if seen is not None else 0.0


class Lease:
    """A lease that is ours, until a write finds that it is not."""

    def __init__(self, bucket: Bucket, topic: str, document: LeaseDocument, revision: int) -> None:
        self.topic = topic
        self.document = document
        self.revision = revision
        self._bucket = bucket
        self._writing = asyncio.Lock()

    @property
    def epoch(self) -> int:
        return self.document.epoch

    async def beat(self) -> None:
        """Say that its holder is there; `Superseded` if somebody else has it."""
        await self._write(self.document.holder)

    async def advance(self, least: int = 0) -> None:
        """Begin another epoch, at least this one."""
        await self._write(self.document.holder, max(self.epoch + 1, least))

    async def release(self) -> None:
        """Give it back: the epoch stays known, and anybody may take it at once."""
        await self._write("")

    async def _write(self, holder: str, epoch: int = 0) -> None:
        key = lease_key(self.topic)
        async with self._writing:  # each write insists on the one before
            if not self.document.holder:
                raise Superseded("it was given back", topic=self.topic, epoch=self.epoch)
            document = LeaseDocument(holder, max(epoch, self.epoch), self.document.beat + 1)
            value = document.encode()
            try:
                self.revision = await self._bucket.put(key, value, revision=self.revision)
            except Conflict:
                entry = await self._bucket.get(key)
                # an answer that was lost: the document is there, only its revision is not known
                if entry is None or entry.value is None or not (entry.value == value or self._wrote(entry.value)):
                    raise Superseded(topic=self.topic, epoch=self.epoch) from None
                self.revision = await self._bucket.put(key, value, revision=entry.revision)
            self.document = document

    def _wrote(self, value: bytes) -> bool:
        """Is it an earlier document of this epoch? Taking a lease over begins another one, even under the same name."""
        try:
            found = LeaseDocument.decode(value)
        except RegistryError:
            return False
        return (found.holder, found.epoch) == (self.document.holder, self.epoch)


async def take(bucket: Bucket, leases: Leases, topic: str, name: str, now: float) -> Lease | None:
    """Take over a topic's lease as it was last seen, one epoch on; None where somebody else was faster."""
    document = LeaseDocument(name, leases.epoch(topic) + 1)
    key = lease_key(topic)
    try:
        revision = await bucket.put(key, document.encode(), revision=leases.revision(topic))
    except Conflict:
        entry = await bucket.get(key)
        if entry is None:
            leases.forget(topic)  # deleted while nobody was told: the next attempt insists on nothing
        else:
            leases.saw(entry, now)
        return None
    leases.saw(BucketEntry(key, document.encode(), revision), now)
    return Lease(bucket, topic, document, revision)


def _read(entry: BucketEntry) -> LeaseDocument | None:
    """A document nobody can read is nobody's lease; whoever takes it over replaces it."""
    if entry.value is None:
        return None
    try:
        return LeaseDocument.decode(entry.value)
    except RegistryError as problem:
        _log.warning("%s cannot be read and counts as given back: %s", entry.key, problem)
        return LeaseDocument("")
