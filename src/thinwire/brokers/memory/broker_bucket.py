"""A client's view of a bucket."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

from thinwire.brokers.memory.connection import Line
from thinwire.brokers.memory.storage import Bell
from thinwire.brokers.memory.storage_documents import Documents
from thinwire.brokers.protocol_broker import ANY, Entry
from thinwire.errors import PayloadTooLarge


class LocalBucket:
    """Documents under keys."""

    def __init__(self, documents: Documents, line: Line, max_payload: int) -> None:
        self.max_payload = max_payload
        self._documents = documents
        self._line = line

    async def get(self, key: str) -> Entry | None:
        """The document, or None."""
        return await self._line.call(lambda: self._documents.get(key))

    async def put(self, key: str, value: bytes, *, revision: int = ANY) -> int:
        """Store a document and return its revision; `Conflict` if the last one is not `revision` (NOTHING: none)."""
        if len(value) > self.max_payload:
            raise PayloadTooLarge(key=key, size=len(value), limit=self.max_payload)
        return await self._line.call(lambda: self._documents.put(key, bytes(value), revision))

    async def delete(self, key: str, *, revision: int = ANY) -> None:
        """Forget a document; no harm if there is none."""
        await self._line.call(lambda: self._documents.delete(key, revision))

    async def entries(self, pattern: str = ">") -> list[Entry]:
        """All documents whose key matches, in the order of their revisions."""
        return await self._line.call(lambda: self._documents.entries(pattern))

    async def watch(self, pattern: str = ">") -> AsyncGenerator[Entry | None, None]:
        """What is there now, then None once, then every change as it comes; it ends when the broker is closed."""
        with self._listening() as bell:
            known = await self._line.call(lambda: self._documents.since(0, pattern))
            for entry in known:
                if entry.value is not None:
                    yield entry
            yield None
            seen = known[-1].revision if known else 0
            while not self._line.closed:
                changes = self._documents.since(seen, pattern) if self._line.up else []
                for entry in changes:
                    seen = entry.revision
                    yield entry
                if not changes:
                    await bell.heard()
                    await self._line.travel()

    @contextmanager
    def _listening(self) -> Iterator[Bell]:
        bell = Bell()
        homes = (self._line.bells, self._documents.listeners)
        for home in homes:
            home.add(bell)
        try:
            yield bell
        finally:
            for home in homes:
                home.discard(bell)
