"""The documents of one bucket as the server keeps them: the last of each key, under the revision of its change.

>>> documents = Documents("registry")
>>> documents.put("topic.rooms", b"{}", NOTHING)
1
>>> documents.put("topic.rooms", b"{...}", 1)
2
>>> documents.delete("topic.rooms", ANY)
>>> documents.since(0), documents.get("topic.rooms")
([Entry(key='topic.rooms', value=None, revision=3)], None)
"""

from __future__ import annotations

from thinwire.brokers.memory.storage import Bell
from thinwire.brokers.protocol_broker import ANY, NOTHING, Entry
from thinwire.brokers.subjects import check_pattern, check_subject, matches
from thinwire.errors import Conflict


class Documents:
    """Entries by key, in the order of their revisions; what was deleted stays as an entry without a value.

    Whoever watches and lags behind is told the newest of each key, not what was in between.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.listeners: set[Bell] = set()
        self._entries: dict[str, Entry] = {}
        self._revision = 0

    def get(self, key: str) -> Entry | None:
        check_subject(key)
        entry = self._entries.get(key)
        return None if entry is None or entry.value is None else entry

    def put(self, key: str, value: bytes, revision: int) -> int:
        """Keep a document if the last one has this revision."""
        self._check(key, revision)
        return self._write(key, value)

    def delete(self, key: str, revision: int) -> None:
        """Forget a document if it has this revision; no harm if there is none."""
        if self.get(key) is not None:
            self._check(key, revision)
            self._write(key, None)

    def since(self, revision: int, pattern: str = ">") -> list[Entry]:
        """What has changed after this revision, in order."""
        check_pattern(pattern)
        newer = []
        for entry in reversed(self._entries.values()):
            if entry.revision <= revision:
                break
            newer.append(entry)
        return [entry for entry in reversed(newer) if matches(pattern, entry.key)]

    def entries(self, pattern: str) -> list[Entry]:
        """The documents that are there, in the order of their revisions."""
        return [entry for entry in self.since(0, pattern) if entry.value is not None]

    def _check(self, key: str, revision: int) -> None:
        there = self.get(key)
        last = self._entries[key].revision if key in self._entries else NOTHING
        if revision not in (ANY, last) and not (revision == NOTHING and there is None):
            raise Conflict(bucket=self.name, key=key, expected=revision, last=last)

    def _write(self, key: str, value: bytes | None) -> int:
        self._revision += 1
        self._entries.pop(key, None)  # the newest stands last: `since` looks from the end
        self._entries[key] = Entry(key, value, self._revision)
        for bell in self.listeners:
            bell.ring()
        return self._revision
