"""Error classes.

`LocalFault`: the input or the state of this process is wrong. `PeerFault`: received data is wrong. Facts are fields and
part of the message, `advice` is the next step, and `retriable` is true if the same call can succeed later unchanged.

>>> error = UnknownDictionary(slot=7, newest=9)
>>> str(error)
'unknown dictionary: slot=7, newest=9. Fetch it from the dictionary store, or wait for a key frame.'
>>> error.retriable, error.slot
(True, 7)
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Self


class ThinwireError(Exception):
    """Base class of all errors. Subclasses state `summary` and `retriable` as arguments of the class.

    summary: first part of the message; the class name in words by default
    advice: the next step; an instance may replace the one of its class
    """

    summary: ClassVar[str] = "thinwire error"
    advice: str = ""
    retriable: ClassVar[bool] = False

    def __init_subclass__(cls, *, summary: str = "", retriable: bool = False) -> None:
        cls.summary = summary or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()
        cls.retriable = retriable

    def __init__(self, detail: str = "", *, advice: Any = None, **facts: Any) -> None:
        self.detail = detail
        self.facts = facts
        if advice is not None:
            self.advice = advice
        super().__init__(self._message())

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(f"{type(self).__name__} has no fact {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Without a call of the constructor, which would make a detail of the message.
        return Exception.__new__, (type(self), *self.args), self.__dict__

    def _message(self) -> str:
        limits = {"choose_from": 400}  # characters, where it is not 80
        facts = ", ".join(f"{name}={_shorten(value, limits.get(name, 80))}" for name, value in self.facts.items())
        head = ": ".join(part for part in (self.summary, self.detail, facts) if part)
        return f"{head}. {self.advice}" if self.advice else head


def _shorten(value: Any, limit: int) -> str:
    """Omit the middle: the end of a path is its most specific part."""
    text, half = repr(value), (limit - 3) // 2
    return text if len(text) <= limit else f"{text[:half]}...{text[-half:]}"


class LocalFault(ThinwireError):
    """The input or the state of this process is wrong."""


class PeerFault(ThinwireError):
    """Received data is wrong."""


class SchemaError(LocalFault, summary="bad schema"):
    """A schema, or the document or class that defines it, is inconsistent."""


class DemandError(LocalFault, summary="bad demand"):
    """A tolerance or another part of a demand does not fit the schema or the data."""


class ConfigError(LocalFault, summary="bad setting"):
    """A setting is outside its limits."""


class LimitExceeded(LocalFault):
    """A topic or a broker has reached a limit, for example of demand classes or watches."""


class MissingExtra(LocalFault):
    advice = "Install it: pip install 'thinwire[EXTRA]' with the name of the extra."


class EventRejected(LocalFault):
    """An event does not fit its schema. The stream continues without it."""


class UnknownProperty(EventRejected):
    advice = "Add it to the schema (a new version), or leave it out of the event."


class MissingProperty(EventRejected):
    advice = "Dimensions and the timestamp identify an event and must be present."


class WrongType(EventRejected, summary="value of the wrong type"):
    """A value is not of the kind of its property."""


class NotFinite(EventRejected, summary="value is not a finite number"):
    advice = "Send null where there is no reading."


class TooLarge(EventRejected, summary="value above the limit"):
    advice = "Shorten it, or store it elsewhere and send a reference."


class LateEvent(EventRejected, summary="timestamp goes backwards"):
    advice = "Set late_policy='accept' to accept late events."


class TooManySources(EventRejected, summary="too many sources in one stream"):
    advice = "Raise max_sources, or check that a measurement was not declared a dimension."


class CorruptFrame(PeerFault, retriable=True):
    """Bytes are not a frame, or not the frame that was sent."""

    advice = "Wait for the next key frame."


class CorruptCheckpoint(PeerFault):
    """Bytes are not a checkpoint or snapshot, or not the one that was written."""

    advice = "Start from key frames instead."


class CorruptRecording(PeerFault):
    advice = "Copy or record it again. An .idx file may be deleted; it is rebuilt from its segment."


class UnsupportedVersion(PeerFault, summary="unsupported wire version"):
    advice = "Upgrade the older side: a reader supports the versions that it was built with."


class UnknownSchema(PeerFault, retriable=True):
    advice = "Fetch the schema with this fingerprint from the registry."


class UnknownPredictor(PeerFault):
    advice = "Register it with `thinwire.codec.predictors.register` in this process, as its publisher does."


class UnknownDictionary(PeerFault, retriable=True):
    advice = "Fetch it from the dictionary store, or wait for a key frame."


class CorruptDictionary(PeerFault):
    """Bytes are not a dictionary, or not the requested one."""

    advice = "Fetch it from the dictionary store again; until then messages are sent without it."


class UnknownFacts(PeerFault, retriable=True):
    """An event refers to static properties that this reader does not have."""

    advice = "Read the facts under this key from their bucket, then join the event again."


class LedgerError(LocalFault, summary="bad ledger"):
    """A file is not a ledger, or a row is not one of its rows."""


class MissingData(LocalFault, summary="data not found"):
    """A recording, a table or another input does not exist."""


class GuaranteeViolated(LocalFault):
    """A value was delivered outside its bound, or an event was not delivered."""

    advice = "This is a defect: please report it with the command that shows it."


class TransportError(LocalFault, summary="bad message"):
    """A broker connection cannot carry out an operation."""


class BadSubject(TransportError):
    advice = "Subjects are tokens joined by dots; in a pattern '*' matches one token and '>' all that follow."


class PayloadTooLarge(TransportError, summary="payload above the limit of the broker"):
    advice = "Put fewer frames into one message, or raise the limit of the broker."


class TransportClosed(TransportError, summary="the connection is closed"):
    advice = "Connect again."


class BrokerUnavailable(TransportError, summary="the broker cannot be reached", retriable=True):
    advice = "Check the address, and that the broker runs: `thinwire doctor URL`."


class BrokerRefused(TransportError, summary="the broker refused"):
    """The broker rejected an operation: credentials, permissions, limits, a full disk."""

    advice = "Check the credentials, permissions and limits of this connection with the administrator of the broker."


class BadUrl(LocalFault, summary="bad URL"):
    advice = "Write nats://host:4222, tls://host:4222, embedded:// (starts a broker here) or memory://name."


class Conflict(TransportError, summary="concurrent write", retriable=True):
    """A bucket entry or a log changed since it was read."""

    advice = "Read again, then write with the new revision."


class UnknownLog(TransportError):
    advice = "Register the topic, or check its name with `thinwire registry list`."


class ServiceUnavailable(TransportError, retriable=True):
    """No service subscribes to the subject of a request, or none replied in time."""

    advice = "Start the service (`thinwire up`), or continue without it."


class Superseded(TransportError, summary="another translator has taken over", retriable=True):
    """A former lease holder was fenced: another service instance holds the lease."""

    advice = "Read the lease again: it names the current holder."


class DataLoss(TransportError, summary="events are missing"):
    """Requested events are no longer in the log, or cannot be read."""

    advice = "Set the option failOnDataLoss to false to continue without them; every loss is then logged."


class UnknownTopic(LocalFault):
    advice = "Register its schema first (`bus.register(schema)`), or give it: schema=..."


class NameInUse(LocalFault, summary="the name is in use"):
    """Another publisher of the topic has the same name, or another subscriber the same durable name."""

    advice = "Use a different name, or stop the other process."


class RegistryError(LocalFault, summary="the registry refuses"):
    """The registry does not accept a document."""


class SparkUnavailable(LocalFault, summary="Spark cannot run here"):
    """A requirement of Spark is missing on this machine, or too old."""

    advice = "`thinwire doctor` checks all requirements."


class SchemaChanged(LocalFault, summary="the schema has changed", retriable=True):
    """A topic has a newer schema than the running query."""

    advice = "Restart the query: it resumes where it stopped, with the new columns."


class TableMismatch(LocalFault, summary="the table does not match"):
    """An existing table does not fit the data. Nothing was written."""


class JobFailed(LocalFault, summary="the Spark job failed"):
    """A Spark job ended before its work was done."""


class PlanError(LocalFault, summary="bad plan"):
    advice = "Correct the field, or create a new plan with `thinwire analyze`."


class WatchFailed(PeerFault, summary="the watch is not evaluated"):
    """No service evaluates a watch, or it cannot be evaluated any more."""


class CorruptWatchLog(PeerFault):
    """A message of the log of a watch is invalid, or does not follow the previous one."""

    advice = "Restart the watch: its subscriber receives the current values."


class LatencyLimitUnreachable(LocalFault, summary="the topic cannot meet its latency limit on any host"):
    advice = "Split its rate into `parts` topics; if parts is None, raise the limit or add a faster host."


class NotEnoughHosts(LocalFault):
    advice = "Add hosts, allow more topics on one (-k), or raise latency limits."


class FunctionUnusable(LocalFault, summary="the processing function cannot be loaded", retriable=True):
    advice = "Check that `module:function` can be imported on the host (--path DIR adds a folder), then apply again."


MAX_EXCERPT = 100
"""characters of a line of an expression that a message shows"""


class ExpressionError(LocalFault, summary="bad expression"):
    """A watch expression or a `where` predicate has a syntax error, or does not fit the schemas of its topics.

    shown: the line of the expression with a caret below the error; the last part of the message
    """

    def __init__(self, detail: str = "", shown: str = "", **facts: Any) -> None:
        self.shown = shown
        super().__init__(detail, **facts)

    @classmethod
    def at(cls, text: str, offset: int, detail: str, **facts: Any) -> Self:
        """Create an error at an offset of an expression."""
        line = text.count("\n", 0, offset) + 1
        column = offset - text.rfind("\n", 0, offset)
        return cls(detail, shown=excerpt(text, offset), line=line, column=column, **facts)

    def _message(self) -> str:
        message = super()._message()
        return f"{message}\n{self.shown}" if self.shown else message


class ExpressionTooLarge(ExpressionError, summary="expression above the limit"):
    """An expression has more terms, alternatives or parentheses than the limit."""

    advice = "Split it into several."


class UnknownName(ExpressionError):
    """A topic, property, dimension or source of an expression does not exist."""


def excerpt(text: str, offset: int) -> str:
    """Return the line at an offset with a caret below it; long lines are cut around the offset.

    >>> print(excerpt("a.x +- none", 7))
        a.x +- none
               ^
    """
    start = text.rfind("\n", 0, offset) + 1
    line = text[start:].partition("\n")[0].replace("\t", " ")
    column = offset - start
    left = max(0, column - MAX_EXCERPT // 2)
    shown = line[left : left + MAX_EXCERPT]
    before, after = "..." * (left > 0), "..." * (left + MAX_EXCERPT < len(line))
    return f"    {before}{shown}{after}\n    {' ' * (len(before) + column - left)}^"
