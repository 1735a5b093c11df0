"""What is known of the edge: how topics are processed, what hosts are, which topic is where, and how long it takes.

>>> gps = EdgeTopic("region-7.gps", function="regions:count", rate=20, interval=0.027)
>>> EdgeTopic.decode(gps.encode()) == gps, gps.output, gps.placed.load
(True, 'region-7.gps.out', 0.54)

What the edge calls things at the broker.

>>> edge_log("region-7.gps"), edge_subject("region-7.gps", "taxi-1"), writer_of("region-7.gps")
('tw_edge_log_region-7~gps', 'tw.edge.region-7.gps.taxi-1', '~region-7~gps')
>>> edge_subject("region-7.gps", "taxi-1", near=True)
'tw.near.region-7.gps.taxi-1'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, cast

from thinwire.errors import ConfigError, RegistryError
from thinwire.placement import Host, TopicLoad
from thinwire.placement.hosts import PROMISE
from thinwire.topics import document_validation as checks
from thinwire.topics.names import check_name_token, check_topic

MAX_MEMORY = 1 << 20
"""megabytes of a worker"""
MAX_QUEUE = 65_536
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")
UPSTREAM = ("all", "results")


class Document:
    """A dataclass that is stored as an object of its fields."""

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """The document as it is stored; a `RegistryError` names the field where it cannot be one."""
        return checks.build(cls, checks.read_object(value))

    def encode(self) -> bytes:
        return checks.write_object(asdict(cast(Any, self)))


@dataclass(frozen=True)
class EdgeTopic(Document):
    """How a topic is processed.

    function: `module:function`; it gets the body of a message and returns the body of the result, or None for none
    rate, interval, promise: what is expected of it, see `thinwire.placement.TopicLoad`
    output: the topic that results go to; the topic's own name and `.out` by default
    upstream: "all", or "results" where messages stay at their host and only results leave it
    host: the only host it may be on; needed where messages stay at their host
    seconds, megabytes: what one message may take, and a worker may grow by; queue: messages that wait at the host
    """

    topic: str
    function: str
    rate: float
    interval: float
    promise: float = PROMISE
    output: str = ""
    upstream: str = "all"
    host: str = ""
    seconds: float = 10.0
    megabytes: int = 512
    queue: int = 64

    def __post_init__(self) -> None:
        checks.topic(self.topic)
        if not self.output:
            object.__setattr__(self, "output", f"{self.topic}.out")
        checks.topic(self.output)
        if self.output == self.topic:
            checks.refuse("output", "another topic than the one it is made of", self.output)
        checks.text("function", self.function)
        if not _FUNCTION.fullmatch(self.function):
            checks.refuse("function", "written as module:function", self.function)
        checks.text("upstream", self.upstream, *UPSTREAM)
        if self.host:
            checks.check_token("host", self.host)
        elif self.near:
            checks.refuse("host", "given where messages stay at their host", self.host)
        self._check_limits()

    def _check_limits(self) -> None:
        checks.number("seconds", self.seconds)
        if not 0 < self.seconds <= 3600:
            checks.refuse("seconds", "above 0 and at most 3600", self.seconds)
        for name, most in (("megabytes", MAX_MEMORY), ("queue", MAX_QUEUE)):
            checks.count(name, getattr(self, name), most)
            if not getattr(self, name):
                checks.refuse(name, "1 at least", 0)
        _placeable(self)

    @property
    def near(self) -> bool:
        """Do its messages stay at their host?"""
        return self.upstream == "results"

    @property
    def placed(self) -> TopicLoad:
        """The topic as solvers and models see it."""
        return TopicLoad(self.topic, self.rate, self.interval, self.promise)


@dataclass(frozen=True)
class EdgeHostDocument(Document):
    """What a host says of itself: its place in a placement, and where its own broker listens."""

    name: str
    cores: int = 1
    speed: float = 1.0
    contention: float = 0.0
    url: str = ""

    def __post_init__(self) -> None:
        checks.check_token("name", self.name)
        checks.text("url", self.url)
        _placeable(self)

    @property
    def placed(self) -> Host:
        """The host as solvers and models see it."""
        return Host(self.name, self.cores, self.speed, self.contention, count=1)


@dataclass(frozen=True)
class Assignment(Document):
    """Which topic is on which host.

    epoch: of the controller that wrote it last; version: grows with every change
    """

    hosts: Mapping[str, str] = field(default_factory=dict)
    version: int = 0
    epoch: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.hosts, Mapping):
            checks.refuse("hosts", "an object of topics and their hosts", type(self.hosts).__name__)
        for topic, host in self.hosts.items():
            checks.topic(topic)
            checks.check_token("host", host)
        checks.count("version", self.version)
        checks.count("epoch", self.epoch)

    def topics_on(self, host: str) -> list[str]:
        """The topics of a host, in the order of their names."""
        return sorted(topic for topic, where in self.hosts.items() if where == host)


@dataclass(frozen=True)
class Seen:
    """What a host, or a subscriber, saw of one topic lately.

    p90: seconds within which nine in ten messages were done, those still waiting included; None where there were none
    rate: messages a second that came in, over the last `span` seconds; interval: seconds of a core that one took; None
        where unknown
    backlog: messages in the log that are not processed yet
    done, failed, repeated: messages since the topic came here
    """

    p90: float | None = None
    rate: float | None = None
    interval: float | None = None
    backlog: int = 0
    done: int = 0
    failed: int = 0
    repeated: int = 0
    span: float = 0.0

    def __post_init__(self) -> None:
        checks.number("span", self.span)
        for name in ("p90", "rate", "interval"):
            if getattr(self, name) is not None:
                checks.number(name, getattr(self, name))
        for name in ("backlog", "done", "failed", "repeated"):
            checks.count(name, getattr(self, name))


@dataclass(frozen=True)
class EdgeReport:
    """What somebody saw of its topics, and how often it has reported."""

    name: str
    beat: int
    topics: Mapping[str, Seen]

    def encode(self) -> bytes:
        topics = {topic: asdict(seen) for topic, seen in self.topics.items()}
        return checks.write_object({"name": self.name, "beat": self.beat, "topics": topics})

    @classmethod
    def decode(cls, value: bytes) -> Self:
        document = checks.build(_Read, checks.read_object(value))
        checks.check_token("name", document.name)
        checks.count("beat", document.beat)
        topics = checks.mapping("topics", document.topics)
        return cls(document.name, document.beat, {topic: _seen(topic, one) for topic, one in topics.items()})


@dataclass(frozen=True)
class _Read:
    name: Any
    beat: Any
    topics: Any


def _placeable(document: EdgeTopic | EdgeHostDocument) -> None:
    """Topics and hosts check what they are told when they are placed."""
    try:
        document.placed  # noqa: B018
    except ConfigError as problem:
        raise RegistryError(problem.detail, **problem.facts) from None


def _seen(topic: str, document: Any) -> Seen:
    if not isinstance(document, dict):
        checks.refuse(f"topics.{topic}", "an object", type(document).__name__)
    known = {one.name for one in fields(Seen)}
    return Seen(**{name: value for name, value in document.items() if name in known})


EDGE = "tw_edge"
"""the bucket of topics with processing functions, of hosts, and of which topic is where"""
EDGE_LEASES = "tw_edge_leases"
"""the bucket of who processes which topic, and of the hosts there are"""
EDGE_LEADER = "tw_edge_leader"
"""the bucket of which controller leads"""
EDGE_POSITIONS = "tw_edge_positions"
"""the bucket of how far each topic has been processed"""
EDGE_REPORTS = "tw_edge_reports"
"""the bucket of the latencies that hosts and subscribers see"""

NEAR = "tw.near.>"
"""what no host lets out"""
ASSIGNMENT = "assignment"
_TOPIC = "topic."
_HOST = "host."
_MODEL = "model."


def edge_log(topic: str, *, near: bool = False) -> str:
    """The log of what is published on a topic; `near`: it is at its host and stays there."""
    return ("tw_near_log_" if near else "tw_edge_log_") + check_topic(topic).replace(".", "~")


def edge_subject(topic: str, writer: str = "*", *, near: bool = False) -> str:
    """Where one publisher, or one processing function, writes on a topic; every one by default."""
    return f"tw.{'near' if near else 'edge'}.{check_topic(topic)}.{writer}"


def check_publisher_name(publisher: str) -> str:
    """A publisher's name, if it can be one; no function writes under such a word."""
    return check_name_token(publisher, "publisher")


def writer_of(topic: str) -> str:
    """The word under which the function of a topic writes."""
    return "~" + topic.replace(".", "~")


def topic_key(topic: str) -> str:
    """Where it says how a topic is processed."""
    return _TOPIC + topic


def host_key(host: str) -> str:
    """Where a host says what it is."""
    return _HOST + host


def model_key(topic: str) -> str:
    """Where the model is that the function of a topic goes by."""
    return _MODEL + topic


def topic_in(key: str) -> str | None:
    """The topic whose key this is; None where it is another one's."""
    return key.removeprefix(_TOPIC) if key.startswith(_TOPIC) else None


def host_in(key: str) -> str | None:
    """The host whose key this is; None where it is another one's."""
    return key.removeprefix(_HOST) if key.startswith(_HOST) else None


def model_in(key: str) -> str | None:
    """The topic whose model this key is for; None where it is another one's."""
    return key.removeprefix(_MODEL) if key.startswith(_MODEL) else None
