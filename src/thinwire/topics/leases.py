"""Leases: documents that elect one worker per topic.

The holder renews its lease five times per term, with a write that requires the revision of its last write. A process
that has observed the same revision for a whole term, by its own clock, may take the lease over, with a write that
requires that revision. Clocks of different machines are never compared, and of two takeovers the broker accepts one.

A process that was paused may write for a moment after its lease was taken over. Fencing limits this: the epoch
increases with every change of the holder and is part of every message, and a write requires the offset of the previous
one.

>>> leases = Leases(term=2.5)
>>> leases.apply(BucketEntry("lease.rooms", LeaseDocument("t1", epoch=4, beat=7).encode(), revision=12), now=100.0)
>>> leases.is_free("rooms", now=102.0), leases.is_free("rooms", now=102.5), leases.epoch("rooms")
(False, True, 4)
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from thinwire.brokers.protocol import NOTHING, Bucket, BucketEntry
from thinwire.errors import Conflict, RegistryError, Superseded
from thinwire.topics.document import Document
from thinwire.topics.document_fields import Count, TokenOrEmpty, whole

RENEWALS = 5
"""renewals per term"""
EXPIRY_TERMS = 10
"""terms without a heartbeat after which the heartbeat document of an instance may be deleted"""
_MAX_EPOCH = (1 << 31) - 1

_log = logging.getLogger("thinwire.topics")


def lease_key(topic: str) -> str:
    """Key of the lease of a topic."""
    return f"lease.{topic}"


def heartbeat_key(kind: str, name: str) -> str:
    """Key of the heartbeat document of an instance of a service; `kind` is "translator", for example."""
    return f"{kind}.{name}"


@dataclass(frozen=True)
class LeaseDocument(Document):
    """A lease, or the heartbeat of an instance, which has the name of the instance as its holder and no epoch.

    holder: name of the holder, "" if the lease is free
    epoch: increases with every change of the holder
    beat: number of renewals by the holder
    """

    holder: TokenOrEmpty
    epoch: Annotated[int, whole(most=_MAX_EPOCH)] = 0
    beat: Count = 0


class _Observed(NamedTuple):
    """The last change of a document, None for its deletion, and the local time at which it was observed."""

    document: LeaseDocument | None
    revision: int
    since: float


class Leases:
    """The observed leases and running instances of one kind of service. No I/O; `now` is the clock of this process.

    term: seconds without a renewal after which a lease is free
    kind: kind of the services that share the topics, as in the keys of their heartbeats
    """

    def __init__(self, term: float, kind: str = "translator") -> None:
        self.term = term
        self.kind = kind
        self._observed: dict[str, _Observed] = {}
        self._epochs: dict[str, int] = {}

    def apply(self, entry: BucketEntry, now: float) -> None:
        """Apply a change of the bucket."""
        before = self._observed.get(entry.key)
        if before is not None and entry.revision <= before.revision:
            return
        document = _read(entry)
        self._observed[entry.key] = _Observed(document, entry.revision, now)
        if document is not None:
            self._epochs[entry.key] = max(document.epoch, self._epochs.get(entry.key, 0))

    def holder(self, topic: str) -> str:
        """The holder in the lease of a topic, running or not; "" if it is free."""
        observed = self._observed.get(lease_key(topic))
        return observed.document.holder if observed is not None and observed.document is not None else ""

    def epoch(self, topic: str) -> int:
        """The highest observed epoch of a topic, also after its lease was deleted."""
        return self._epochs.get(lease_key(topic), 0)

    def unchanged_seconds(self, topic: str, now: float) -> float:
        """Seconds since the last observed change of a topic's lease."""
        return self._unchanged(lease_key(topic), now)

    def is_free(self, topic: str, now: float) -> bool:
        """Return True if a lease was released, never taken, or not renewed for a term."""
        return not self.holder(topic) or self.unchanged_seconds(topic, now) >= self.term

    def running_instances(self, now: float) -> set[str]:
        """Instances with a heartbeat within the last term."""
        return {name for name, seconds in self._heartbeats(now).items() if seconds < self.term}

    def find_expired(self, now: float) -> set[str]:
        """Instances without a heartbeat for `EXPIRY_TERMS` terms."""
        return {name for name, seconds in self._heartbeats(now).items() if seconds >= EXPIRY_TERMS * self.term}

    def revision(self, topic: str) -> int:
        """The revision that a takeover of a topic's lease must state."""
        observed = self._observed.get(lease_key(topic))
        return observed.revision if observed is not None and observed.document is not None else NOTHING

    def remove(self, topic: str) -> None:
        """Remove the observed lease of a topic. The epoch remains."""
        self._observed.pop(lease_key(topic), None)

    def _heartbeats(self, now: float) -> dict[str, float]:
        prefix = heartbeat_key(self.kind, "")
        keys = [
            key for key, observed in self._observed.items() if key.startswith(prefix) and observed.document is not None
        ]
        return {key.removeprefix(prefix): self._unchanged(key, now) for key in keys}

    def _unchanged(self, key: str, now: float) -> float:
        observed = self._observed.get(key)
        return now - observed.since if observed is not None else 0.0


class Lease:
    """A lease that this process holds, until a write is refused."""

    def __init__(self, bucket: Bucket, topic: str, document: LeaseDocument, revision: int) -> None:
        self.topic = topic
        self.document = document
        self.revision = revision
        self._bucket = bucket
        self._writing = asyncio.Lock()

    @property
    def epoch(self) -> int:
        return self.document.epoch

    async def renew(self) -> None:
        """Renew the lease; `Superseded` if another process took it over."""
        await self._write(self.document.holder)

    async def advance(self, minimum: int = 0) -> None:
        """Increase the epoch, to `minimum` or more."""
        await self._write(self.document.holder, max(self.epoch + 1, minimum))

    async def release(self) -> None:
        """Release the lease. The document keeps the epoch."""
        await self._write("")

    async def _write(self, holder: str, epoch: int = 0) -> None:
        key = lease_key(self.topic)
        async with self._writing:  # each write requires the revision of the previous one
            if not self.document.holder:
                raise Superseded("the lease was released", topic=self.topic, epoch=self.epoch)
            document = replace(self.document, holder=holder, epoch=max(epoch, self.epoch), beat=self.document.beat + 1)
            value = document.encode()
            try:
                self.revision = await self._bucket.put(key, value, revision=self.revision)
            except Conflict:
                entry = await self._bucket.get(key)
                # if the answer was lost, the document is stored but its revision is unknown
                if entry is None or entry.value is None or not (entry.value == value or self._is_own(entry.value)):
                    raise Superseded(topic=self.topic, epoch=self.epoch) from None
                self.revision = await self._bucket.put(key, value, revision=entry.revision)
            self.document = document

    def _is_own(self, value: bytes) -> bool:
        """Return True for a document of this epoch. A takeover starts another one, even under the same name."""
        try:
            found = LeaseDocument.decode(value)
        except RegistryError:
            return False
        return (found.holder, found.epoch) == (self.document.holder, self.epoch)


async def take(bucket: Bucket, leases: Leases, topic: str, name: str, now: float) -> Lease | None:
    """Take over the observed lease of a topic with the next epoch; None if it has changed since."""
    document = LeaseDocument(name, leases.epoch(topic) + 1)
    key = lease_key(topic)
    try:
        revision = await bucket.put(key, document.encode(), revision=leases.revision(topic))
    except Conflict:
        entry = await bucket.get(key)
        if entry is None:
            leases.remove(topic)  # the deletion was not observed; the next attempt requires that there is no lease
        else:
            leases.apply(entry, now)
        return None
    leases.apply(BucketEntry(key, document.encode(), revision), now)
    return Lease(bucket, topic, document, revision)


def _read(entry: BucketEntry) -> LeaseDocument | None:
    """The document of an entry. An invalid one counts as released, and a takeover replaces it."""
    if entry.value is None:
        return None
    try:
        return LeaseDocument.decode(entry.value)
    except RegistryError as problem:
        _log.warning("invalid lease %s counts as released: %s", entry.key, problem)
        return LeaseDocument("")
