"""What is written of watches: each watch once, whoever follows it, and why one cannot be evaluated.

Equal conditions with equal options are one watch: its name is made from them, and one evaluator serves all who ask.

>>> asked = WatchDocument.of("rooms[12].t +- 0.5", "00ff00ff00ff00ff", WatchOptions(max_delay=2.0))
>>> WatchDocument.decode(asked.encode()) == asked, asked.key == watch_key(asked.watch)
(True, True)
>>> asked.watch == WatchDocument.of("rooms[12].t +- 0.50", "00ff00ff00ff00ff", WatchOptions(max_delay=2.0)).watch
True

What a watcher is told beside notifications, on its way through the log of the watch.

>>> WatchNotice.read(WatchNotice("missed", "rooms", "p1", {"reason": "gap"}).written()).facts
{'reason': 'gap'}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from thinwire.codec import EventsMissed
from thinwire.errors import ConfigError, CorruptWatchLog
from thinwire.filters.composite.feed_sequencer import LatePolicy
from thinwire.topics import document_validation as checks

MAX_WATCHES = 256
"""different watches at one broker"""
MAX_TEXT = 262_144
_WATCH, _WATCHER, _FAILED = "watch.", "watcher.", "failed."

WatchStart = Literal["latest", "earliest"] | float
"""where the logs of the topics are read from: now, the first event kept, or what was stored at a time (seconds)"""


@dataclass(frozen=True)
class WatchOptions:
    """How a watch is evaluated.

    max_delay: seconds that an event waits for others that come before it in time; infinity to wait for every publisher
    late_policy: "apply" what comes later than that, flagged, or "drop" it
    start: where a watch that is new begins
    """

    max_delay: float = 1.0
    late_policy: LatePolicy = "apply"
    start: WatchStart = "latest"

    def __post_init__(self) -> None:
        if isinstance(self.max_delay, bool) or not isinstance(self.max_delay, int | float) or not self.max_delay >= 0:
            raise ConfigError("max_delay is a number of seconds, zero or more", max_delay=self.max_delay)
        if self.late_policy not in ("apply", "drop"):
            raise ConfigError("late_policy is 'apply' or 'drop'", late_policy=self.late_policy)
        if self.start not in ("latest", "earliest") and not _is_time(self.start):
            raise ConfigError("start is 'latest', 'earliest' or a time", start=self.start)


@dataclass(frozen=True)
class WatchDocument:
    """One watch: what it waits for and how.

    fingerprint: of the condition that the expression said when the watch was made; max_delay: None without an end
    """

    watch: str
    expression: str
    fingerprint: str
    max_delay: float | None = 1.0
    late_policy: LatePolicy = "apply"
    start: WatchStart = "latest"

    def __post_init__(self) -> None:
        checks.fingerprint("watch", self.watch)
        checks.fingerprint("fingerprint", self.fingerprint)
        if not isinstance(self.expression, str) or len(self.expression) > MAX_TEXT:
            checks.refuse("expression", f"a text of at most {MAX_TEXT} characters", type(self.expression).__name__)
        if self.max_delay is not None:
            checks.number("max_delay", self.max_delay)
        checks.text("late_policy", self.late_policy, "apply", "drop")
        if not _is_time(self.start):
            checks.text("start", self.start, "latest", "earliest")

    @classmethod
    def of(cls, expression: str, fingerprint: str, options: WatchOptions) -> WatchDocument:
        """The document of a watch; its name says what it waits for, and how."""
        delay = None if math.isinf(options.max_delay) else float(options.max_delay)
        how = delay, options.late_policy, options.start
        name = blake2b(repr((fingerprint, *how)).encode(), digest_size=8).hexdigest()
        return cls(name, expression, fingerprint, *how)

    @classmethod
    def decode(cls, value: bytes) -> WatchDocument:
        """The document as it is stored; a `RegistryError` names the field where it cannot be one."""
        return checks.build(cls, checks.read_object(value))

    @property
    def key(self) -> str:
        return watch_key(self.watch)

    @property
    def options(self) -> WatchOptions:
        """How it is evaluated."""
        return WatchOptions(math.inf if self.max_delay is None else self.max_delay, self.late_policy, self.start)

    def encode(self) -> bytes:
        return checks.write_object(asdict(self))


@dataclass(frozen=True)
class WatcherDocument:
    """Somebody who follows a watch; `durable`: also while it is away."""

    watch: str
    identity: str
    durable: bool = False
    since: float = 0.0

    def __post_init__(self) -> None:
        checks.fingerprint("watch", self.watch)
        checks.check_token("identity", self.identity)
        checks.flag("durable", self.durable)
        checks.number("since", self.since)

    @classmethod
    def decode(cls, value: bytes) -> WatcherDocument:
        """The document as it is stored; a `RegistryError` names the field where it cannot be one."""
        return checks.build(cls, checks.read_object(value))

    @property
    def key(self) -> str:
        return watcher_key(self.watch, self.identity)

    def encode(self) -> bytes:
        return checks.write_object(asdict(self))


def watch_key(watch: str = "*") -> str:
    """Where a watch is described; all of them by default."""
    return _WATCH + watch


def watcher_key(watch: str = "*", identity: str = "*") -> str:
    """Where it says who follows a watch."""
    return f"{_WATCHER}{watch}.{identity}"


def failed_key(watch: str) -> str:
    """Where it says why a watch cannot be evaluated."""
    return _FAILED + watch


def _is_time(start: object) -> bool:
    return not isinstance(start, bool) and isinstance(start, int | float) and 0 <= start < math.inf


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


def missed(topic: str, what: EventsMissed) -> WatchNotice:
    """Events of a topic that could not be had."""
    source = None if what.source is None else list(what.source)
    facts = {"source": source, "first": what.first, "last": what.last, "reason": what.reason}
    return WatchNotice("missed", topic, what.publisher, facts)
