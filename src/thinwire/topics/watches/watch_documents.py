"""Documents of watches and their watchers, and the notices in a watch log.

The name of a watch is a hash of its condition and options, so equal watches share one document and one evaluator.

>>> wanted = WatchDocument.of("rooms[12].t +- 0.5", "00ff00ff00ff00ff", WatchOptions(max_delay=2.0))
>>> WatchDocument.decode(wanted.encode()) == wanted, wanted.key == watch_key(wanted.watch)
(True, True)
>>> wanted.watch == WatchDocument.of("rooms[12].t +- 0.50", "00ff00ff00ff00ff", WatchOptions(max_delay=2.0)).watch
True
>>> WatchNotice.from_fields(WatchNotice("missed", "rooms", "p1", {"reason": "gap"}).to_fields()).facts
{'reason': 'gap'}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from thinwire.codec import EventsMissed
from thinwire.errors import ConfigError, CorruptWatchLog, ThinwireError
from thinwire.filters.composite.feed_sequencer import LatePolicy
from thinwire.topics.document import Document
from thinwire.topics.document_fields import Fingerprint, Number, Token, number, refuse, text

MAX_WATCHES = 256
"""different watches at one broker"""
MAX_EXPRESSION = 262_144
_check_time = number()


def _check_start(field: str, value: Any) -> Any:
    if isinstance(value, str) and value not in ("latest", "earliest"):
        refuse(field, "latest, earliest or a time", value)
    return value if isinstance(value, str) else _check_time(field, value)


WatchStart = Literal["latest", "earliest"] | float
"""where the topic logs are read from: the end, the first stored event, or a time in seconds since the epoch"""
Start = Annotated[WatchStart, _check_start]


@dataclass(frozen=True)
class WatchOptions(Document):
    """How a watch is evaluated.

    max_delay: seconds that an event waits for earlier events of other topics; infinity to wait for every publisher
    late_policy: "apply" events that arrive later than that, flagged as late, or "drop" them
    start: where a new watch begins
    """

    error: ClassVar[type[ThinwireError]] = ConfigError

    max_delay: Annotated[float, number(finite=False)] = 1.0
    late_policy: LatePolicy = "apply"
    start: Start = "latest"


@dataclass(frozen=True)
class WatchDocument(Document):
    """One watch.

    fingerprint: hash of the resolved condition
    max_delay: None for no limit
    """

    watch: Fingerprint
    expression: Annotated[str, text(MAX_EXPRESSION)]
    fingerprint: Fingerprint
    max_delay: Number | None = 1.0
    late_policy: LatePolicy = "apply"
    start: Start = "latest"

    @classmethod
    def of(cls, expression: str, fingerprint: str, options: WatchOptions) -> WatchDocument:
        """Return the document of a watch; its name is a hash of the condition and the options."""
        delay = None if math.isinf(options.max_delay) else float(options.max_delay)
        fields = delay, options.late_policy, options.start
        name = blake2b(repr((fingerprint, *fields)).encode(), digest_size=8).hexdigest()
        return cls(name, expression, fingerprint, *fields)

    @property
    def key(self) -> str:
        return watch_key(self.watch)

    @property
    def options(self) -> WatchOptions:
        return WatchOptions(math.inf if self.max_delay is None else self.max_delay, self.late_policy, self.start)


@dataclass(frozen=True)
class WatcherDocument(Document):
    """A consumer of a watch. A durable one keeps the watch evaluated while it is not running."""

    watch: Fingerprint
    identity: Token
    durable: bool = False
    since: Number = 0.0

    @property
    def key(self) -> str:
        return watcher_key(self.watch, self.identity)


def watch_key(watch: str = "*") -> str:
    """Return the key of a watch; a pattern for all watches by default."""
    return f"watch.{watch}"


def watcher_key(watch: str = "*", identity: str = "*") -> str:
    """Return the key of a watcher; a pattern for all watchers by default."""
    return f"watcher.{watch}.{identity}"


def failed_key(watch: str) -> str:
    """Return the key of the reason why a watch cannot be evaluated."""
    return f"failed.{watch}"


KINDS = frozenset({"missed", "coarser", "unreadable", "gone"})
"""lost events; values with a bound above zero; an unreadable message; a publisher without heartbeats"""
MAX_NOTICES = 256
"""notices in one record; further ones are dropped"""


class WatchNotice(NamedTuple):
    """A notice of one of `KINDS` about a publisher, with its details."""

    kind: str
    topic: str
    publisher: str
    facts: Mapping[str, Any]

    def to_fields(self) -> list[Any]:
        """Return the notice as JSON values."""
        return [self.kind, self.topic, self.publisher, dict(self.facts)]

    @classmethod
    def from_fields(cls, fields: Any) -> WatchNotice:
        """Read a notice from JSON values; `CorruptWatchLog` if they are not one."""
        if not isinstance(fields, list) or len(fields) != 4 or fields[0] not in KINDS:
            raise CorruptWatchLog("not a notice", found=str(fields)[:100])
        kind, topic, publisher, facts = fields
        if not (isinstance(topic, str) and isinstance(publisher, str) and isinstance(facts, dict)):
            raise CorruptWatchLog("not a notice", found=str(fields)[:100])
        return cls(kind, topic, publisher, facts)


def missed_notice(topic: str, loss: EventsMissed) -> WatchNotice:
    """Return the notice of lost events."""
    source = None if loss.source is None else list(loss.source)
    facts = {"source": source, "first": loss.first, "last": loss.last, "reason": loss.reason}
    return WatchNotice("missed", topic, loss.publisher, facts)
