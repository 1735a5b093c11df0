"""One tree of errors.

Every error says whose fault it is (`LocalFault`: what this process was given; `PeerFault`: what came over the wire),
keeps the facts as fields, and says in `advice` what to do next. `retriable` is a fact of the class: would the same
call succeed later without anybody changing anything?

>>> error = UnknownDictionary(slot=7, newest=9)
>>> str(error)
'unknown dictionary: slot=7, newest=9. Ask the dictionary cache, then wait for a key frame.'
>>> error.retriable, error.slot
(True, 7)
"""

from __future__ import annotations

from typing import Any, ClassVar, Self


class ThinwireError(Exception):
    """The root. Facts given by keyword become fields and part of the message."""

    summary: ClassVar[str] = "thinwire error"
    advice: ClassVar[str] = ""
    retriable: ClassVar[bool] = False

    def __init__(self, detail: str = "", **facts: Any) -> None:
        self.detail = detail
        self.facts = facts
        super().__init__(self._sentence())

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(f"{type(self).__name__} has no fact {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.detail, self.facts)

    def _sentence(self) -> str:
        facts = ", ".join(f"{name}={_short(value, _LIMITS.get(name, 80))}" for name, value in self.facts.items())
        head = ": ".join(part for part in (self.summary, self.detail, facts) if part)
        return f"{head}. {self.advice}" if self.advice else head


def _rebuild(kind: type[ThinwireError], detail: str, facts: dict[str, Any]) -> ThinwireError:
    return kind(detail, **facts)


_LIMITS = {"choose_from": 400}
"""characters of a fact that are shown, where it is not 80"""


def _short(value: Any, limit: int) -> str:
    """The middle is left out: a path ends with what says most."""
    text, half = repr(value), (limit - 3) // 2
    return text if len(text) <= limit else f"{text[:half]}...{text[-half:]}"


class LocalFault(ThinwireError):
    """What this process was asked to do cannot be done."""

    summary = "local fault"


class PeerFault(ThinwireError):
    """What came over the wire cannot be right."""

    summary = "peer fault"


class SchemaError(LocalFault):
    """A schema, or the document or class it was read from, contradicts itself."""

    summary = "bad schema"


class DemandError(LocalFault):
    """A tolerance or another demand that the schema cannot honour."""

    summary = "bad demand"


class ConfigError(LocalFault):
    """A setting outside its limits."""

    summary = "bad setting"


class UnknownPredictor(ConfigError):
    summary = "unknown predictor"
    advice = "Choose one that `thinwire.codec.predictors.names()` lists, or 'auto'."


class MissingExtra(LocalFault):
    """Something optional was asked for and is not installed."""

    summary = "missing extra"
    advice = "Install it: pip install 'thinwire[EXTRA]' with the name of the extra."


class FullEventsOnly(LocalFault):
    """A partial event, or one with nulls, was given to a format that has no way to leave a property out."""

    summary = "format takes full events only"
    advice = "Choose a format whose `supports_partial` is true."


class EventRejected(LocalFault):
    """An event that does not fit its schema; the stream goes on without it."""

    summary = "event rejected"


class UnknownProperty(EventRejected):
    summary = "unknown property"
    advice = "Add it to the schema (a new version), or leave it out of the event."


class MissingProperty(EventRejected):
    summary = "missing property"
    advice = "Dimensions and the timestamp identify an event and must be present."


class WrongType(EventRejected):
    summary = "value of the wrong type"


class NotFinite(EventRejected):
    summary = "value is not a finite number"
    advice = "Send null where there is no reading."


class TooLarge(EventRejected):
    summary = "value above the limit"
    advice = "Shorten it, or store it elsewhere and send a reference."


class LateEvent(EventRejected):
    summary = "timestamp goes backwards"
    advice = "Set late_policy='accept' to let late events through."


class TooManySources(EventRejected):
    summary = "too many sources on one link"
    advice = "Raise max_sources, or check that a measurement was not declared a dimension."


class CorruptFrame(PeerFault):
    """Bytes that are not a frame, or not the frame that was sent."""

    summary = "corrupt frame"
    advice = "Wait for the next key frame."
    retriable = True


class CorruptCheckpoint(PeerFault):
    """Bytes that are not a checkpoint of a link, or not the one that was written."""

    summary = "corrupt checkpoint"
    advice = "Start from key frames instead."


class CorruptRecording(PeerFault):
    """Bytes of a recording that are not those that were written."""

    summary = "corrupt recording"
    advice = "Copy or record it again; an .idx file may be deleted, it is made anew from its segment."


class UnsupportedVersion(PeerFault):
    summary = "unsupported wire version"
    advice = "Upgrade the older side: a reader reads the versions it was built with."


class UnknownSchema(PeerFault):
    summary = "unknown schema"
    advice = "Ask the registry for the schema with this fingerprint."
    retriable = True


class UnknownDictionary(PeerFault):
    summary = "unknown dictionary"
    advice = "Ask the dictionary cache, then wait for a key frame."
    retriable = True


class CorruptDictionary(PeerFault):
    """Bytes that are not a dictionary, or not the one that was asked for."""

    summary = "corrupt dictionary"
    advice = "Ask the store for it again; until then messages travel without it."


class LedgerError(LocalFault):
    """A file that is not a ledger, or a row that is not one of ours."""

    summary = "bad ledger"


class MissingData(LocalFault):
    """A recording to measure on is not there."""

    summary = "recording not found"
    advice = "Name the folder that holds the recordings with --data."


class NoRecording(LocalFault):
    summary = "no recording there"
    advice = "Name the folder that `thinwire record TOPIC --to FOLDER` wrote."


class BrokenPromise(LocalFault):
    """A value arrived further from the truth than its bound, or an event not at all."""

    summary = "broken promise"
    advice = "This is a defect: please report it with the command that shows it."


class TransportError(LocalFault):
    """A transport cannot carry what it was given, or not now."""

    summary = "bad message"


class BadSubject(TransportError):
    summary = "bad subject"
    advice = "Subjects are words joined by dots; in a pattern '*' stands for one word and '>' for all that follow."


class PayloadTooLarge(TransportError):
    summary = "payload above the limit of the transport"
    advice = "Put fewer frames into one message, or raise the broker's limit."


class Backpressure(TransportError):
    """A subscriber does not keep up and must not lose anything."""

    summary = "an inbox is full"
    advice = "Let the subscriber receive, then publish again; or subscribe with policy='drop'."
    retriable = True


class NoLongerRetained(TransportError):
    summary = "the log no longer reaches back that far"
    advice = "Start at the first retained message, from a key frame."


class TransportClosed(TransportError):
    summary = "the transport is closed"
    advice = "Connect again."


class BrokerUnavailable(TransportError):
    summary = "the broker cannot be reached"
    advice = "Check the address, and that the broker runs: `thinwire doctor URL`."
    retriable = True


class BrokerRefused(TransportError):
    """The broker answered, and said no: credentials, permissions, limits, a full disk."""

    summary = "the broker refused"
    advice = "Check the credentials, permissions and limits of this connection with the broker's administrator."


class BadUrl(LocalFault):
    summary = "bad URL"
    advice = "Write nats://host:4222, tls://host:4222, embedded:// (starts a broker here) or memory://name."


class Conflict(TransportError):
    """Somebody else wrote in between."""

    summary = "somebody else wrote first"
    advice = "Read again, decide again, write again."
    retriable = True


class UnknownLog(TransportError):
    summary = "there is no such log"
    advice = "Register the topic, or check its name with `thinwire registry list`."


class NobodyAnswers(TransportError):
    summary = "nobody answers"
    advice = "Start the service (`thinwire up`), or go on without it."
    retriable = True


class UnknownTopic(LocalFault):
    summary = "unknown topic"
    advice = "Register its schema first (`bus.register(schema)`), or give it: schema=..."


class IdentityTaken(LocalFault):
    """Another publisher speaks under the same name on the same topic."""

    summary = "the name of this publisher is taken"
    advice = "Give every publisher of a topic a name of its own (name=...), or stop the other one."


class DurableTaken(LocalFault):
    """Another subscriber reads on under the same durable name."""

    summary = "the durable name is taken"
    advice = "Give every subscriber a durable name of its own, or stop the other one."


class RegistryError(LocalFault):
    """A document the registry cannot take."""

    summary = "the registry refuses"


class UnknownFacts(PeerFault):
    """An event refers to facts that this reader has not been told."""

    summary = "unknown facts"
    advice = "Read the facts under this key from their bucket, then join the event again."
    retriable = True


class Superseded(TransportError):
    """Somebody else has taken over what this translator was doing."""

    summary = "another translator has taken over"
    advice = "Look at the lease again: it says who translates the topic now."
    retriable = True


class TooManyClasses(LocalFault):
    """A topic has as many classes of subscriptions as a translator takes."""

    summary = "too many classes of subscriptions on one topic"
    advice = "Round tolerances to fewer levels, use emit='changes', or read the log."


class SparkUnavailable(LocalFault):
    """What Spark needs is missing on this machine, or too old."""

    summary = "Spark cannot run here"
    advice = "`thinwire doctor` looks at everything it needs."


class DataLoss(TransportError):
    """Events that were asked for are not in the log any more, or cannot be read."""

    summary = "events are missing"
    advice = "Set the option failOnDataLoss to false to go on without them; every loss is then counted and logged."


class SchemaChanged(LocalFault):
    """A topic has a newer schema than the one that a running query was made for."""

    summary = "the schema has changed"
    advice = "Start the query again: it goes on where it stopped, with the new columns."
    retriable = True


class TableMismatch(LocalFault):
    """A table that is there already cannot take what is to be written; nothing was."""

    summary = "the table does not match"


class JobFailed(LocalFault):
    """A job on Spark ended before its work was done."""

    summary = "the Spark job failed"


class CoarserThanAsked(DemandError):
    """The log does not keep values as closely as they were asked for."""

    summary = "the log is coarser than asked"
    advice = "Ask for a larger tolerance, or begin behind this offset."


class PlanError(LocalFault):
    """A plan that cannot be followed."""

    summary = "bad plan"
    advice = "Correct the field, or let `thinwire analyze` write the plan anew."


SHOWN_WINDOW = 100
"""characters of a line of an expression that are shown around a place"""


class ExpressionError(LocalFault):
    """An expression (of a watch, of a `where`) that cannot be read, or that does not fit the topics it speaks of.

    shown: the line of the expression with a caret below the place; it ends the message
    """

    summary = "bad expression"

    def __init__(self, detail: str = "", shown: str = "", **facts: Any) -> None:
        self.shown = shown
        super().__init__(detail, **facts)

    @classmethod
    def at(cls, text: str, place: int, detail: str, **facts: Any) -> Self:
        """An error about one place of an expression."""
        line = text.count("\n", 0, place) + 1
        column = place - text.rfind("\n", 0, place)
        return cls(detail, shown=drawing(text, place), line=line, column=column, **facts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.detail, {"shown": self.shown, **self.facts})

    def _sentence(self) -> str:
        said = super()._sentence()
        return f"{said}\n{self.shown}" if self.shown else said


class ExpressionTooLarge(ExpressionError):
    """An expression with more terms, alternatives or parentheses than an evaluator takes."""

    summary = "expression above the limit"
    advice = "Split it into several."


def drawing(text: str, place: int) -> str:
    """The line of a place with a caret below it; of a long line what is around the place.

    >>> print(drawing("a.x +- none", 7))
        a.x +- none
               ^
    """
    start = text.rfind("\n", 0, place) + 1
    line = text[start:].partition("\n")[0].replace("\t", " ")
    column = place - start
    left = max(0, column - SHOWN_WINDOW // 2)
    shown = line[left : left + SHOWN_WINDOW]
    before, after = "..." * (left > 0), "..." * (left + SHOWN_WINDOW < len(line))
    return f"    {before}{shown}{after}\n    {' ' * (len(before) + column - left)}^"


class BadThreshold(ExpressionError):
    """A threshold that no value could be measured against."""

    summary = "bad threshold"


class UnknownName(ExpressionError):
    """A topic, property, dimension or source that is not there."""

    summary = "unknown name"


class TooManyWatches(LocalFault):
    """A broker has as many different watches as its evaluators take."""

    summary = "too many watches"
    advice = "Share one: equal expressions with equal options are one watch. Or forget durable ones (`forget_watch`)."


class WatchFailed(PeerFault):
    """A watch that nobody evaluates, or can evaluate any more."""

    summary = "the watch is not evaluated"


class CorruptWatchLog(PeerFault):
    """A message of a watch's output log that does not follow from those before it, or is none."""

    summary = "watch log cannot be right"
    advice = "Start the watch anew: its subscriber is told where everything stands."


class SummaryError(LocalFault):
    """A table of a workload's summary that contradicts itself or another one."""

    summary = "bad summary"
    advice = "Correct the table; rows are counted from 1, without the header."


class ScenarioError(LocalFault):
    """A scenario that cannot be run."""

    summary = "bad scenario"
    advice = "Correct the field; docs/scenarios.md explains every one."


class PromiseOutOfReach(LocalFault):
    """A topic that is late even with a host to itself."""

    summary = "this topic cannot keep its promise alone"
    advice = "Split its rate into so many parts; where parts is None, promise more time or add a faster host."


class NotEnoughHosts(LocalFault):
    summary = "not enough hosts"
    advice = "Add hosts, allow more topics on one (-k), or promise more time."


class FunctionUnusable(LocalFault):
    """A processing function that cannot be loaded."""

    summary = "this processing function cannot be used"
    advice = "Check that `module:function` can be imported on the host (--path DIR adds a folder), then apply again."
    retriable = True
