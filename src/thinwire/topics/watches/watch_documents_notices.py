"""What a watcher is told beside notifications, on its way through the log of the watch.

>>> WatchNotice.read(WatchNotice("missed", "rooms", "p1", {"reason": "gap"}).written()).facts
{'reason': 'gap'}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from thinwire.codec import Missed
from thinwire.errors import CorruptWatchLog

KINDS = frozenset({"missed", "coarser", "unreadable", "gone"})
"""events that could not be had; values that are not exact; a message nobody can read; a publisher that fell silent"""
MAX_NOTICES = 256
"""told in one record; more of the same moment are left out"""


class WatchNotice(NamedTuple):
    """A kind of `KINDS`, whom it is about, and what is known of it."""

    kind: str
    topic: str
    publisher: str
    facts: Mapping[str, Any]

    def written(self) -> list[Any]:
        """As plain JSON values."""
        return [self.kind, self.topic, self.publisher, dict(self.facts)]

    @classmethod
    def read(cls, fields: Any) -> WatchNotice:
        """The notice again; what comes back is checked, whoever wrote it."""
        if not isinstance(fields, list) or len(fields) != 4 or fields[0] not in KINDS:
            raise CorruptWatchLog("not a notice", found=str(fields)[:100])
        kind, topic, publisher, facts = fields
        if not (isinstance(topic, str) and isinstance(publisher, str) and isinstance(facts, dict)):
            raise CorruptWatchLog("not a notice", found=str(fields)[:100])
        return cls(kind, topic, publisher, facts)


def missed(topic: str, what: Missed) -> WatchNotice:
    """Events of a topic that could not be had."""
    source = None if what.source is None else list(what.source)
    facts = {"source": source, "first": what.first, "last": what.last, "reason": what.reason}
    return WatchNotice("missed", topic, what.publisher, facts)
