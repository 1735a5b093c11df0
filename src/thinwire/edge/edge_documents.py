"""Documents of the edge: topics with processing functions, hosts, the assignment and latency reports; and their names.

>>> gps = EdgeTopic("region-7.gps", function="regions:count", rate=20, interval=0.027)
>>> EdgeTopic.decode(gps.encode()) == gps, gps.output, gps.placed.load
(True, 'region-7.gps.out', 0.54)
>>> edge_log("region-7.gps"), edge_subject("region-7.gps", "taxi-1"), writer_of("region-7.gps")
('tw_edge_log_region-7~gps', 'tw.edge.region-7.gps.taxi-1', '~region-7~gps')
>>> edge_subject("region-7.gps", "taxi-1", near=True)
'tw.near.region-7.gps.taxi-1'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from thinwire.errors import ConfigError, RegistryError
from thinwire.placement import Host, TopicLoad
from thinwire.placement.hosts import PROMISE
from thinwire.topics.document import Document, nested
from thinwire.topics.document_fields import (
    Count,
    Number,
    Text,
    Token,
    TokenOrEmpty,
    Topic,
    check_token,
    check_topic_name,
    mapping_of,
    number,
    or_empty,
    pattern,
    refuse,
    whole,
)
from thinwire.topics.names import check_topic

MAX_MEMORY = 1 << 20
"""megabytes of a worker"""
MAX_QUEUE = 65_536
MAX_SECONDS = 3600.0
_FUNCTION = r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*"


@dataclass(frozen=True)
class EdgeTopic(Document):
    """How a topic is processed.

    function: `module:function`; it gets the body of a message and returns the body of the result, or None for none
    rate, interval, promise: expected load and latency limit, see `thinwire.placement.TopicLoad`
    output: topic of the results; `<topic>.out` by default
    upstream: "all", or "results" if messages stay at their host and only results leave it
    host: the only host it may be on; required if messages stay at their host
    seconds, megabytes: limits of one message's processing time and of a worker's memory
    queue: messages that wait at the host
    """

    topic: Topic
    function: Annotated[str, pattern(_FUNCTION, "written as module:function")]
    rate: Number
    interval: Number
    promise: Number = PROMISE
    output: Annotated[str, or_empty(check_topic_name)] = ""
    upstream: Literal["all", "results"] = "all"
    host: TokenOrEmpty = ""
    seconds: Annotated[float, number(most=MAX_SECONDS, above=0.0)] = 10.0
    megabytes: Annotated[int, whole(1, MAX_MEMORY)] = 512
    queue: Annotated[int, whole(1, MAX_QUEUE)] = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.output:
            object.__setattr__(self, "output", f"{self.topic}.out")
        if self.output == self.topic:
            refuse("output", "another topic than its input", self.output)
        if self.near and not self.host:
            refuse("host", "given if messages stay at their host", self.host)
        _check_load(self)

    @property
    def near(self) -> bool:
        """Whether its messages stay at their host."""
        return self.upstream == "results"

    @property
    def placed(self) -> TopicLoad:
        """The topic as input of solvers and latency models."""
        return TopicLoad(self.topic, self.rate, self.interval, self.promise)


@dataclass(frozen=True)
class EdgeHostDocument(Document):
    """A host: its capacity, and the address of its own broker."""

    name: Token
    cores: Count = 1
    speed: Number = 1.0
    contention: Number = 0.0
    url: Text = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_load(self)

    @property
    def placed(self) -> Host:
        """The host as input of solvers and latency models."""
        return Host(self.name, self.cores, self.speed, self.contention, count=1)


@dataclass(frozen=True)
class Assignment(Document):
    """The host of each topic.

    version: increases with every change
    epoch: epoch of the controller that wrote it
    """

    hosts: Annotated[Mapping[str, str], mapping_of(check_token, check_topic_name)] = field(default_factory=dict)
    version: Count = 0
    epoch: Count = 0


@dataclass(frozen=True)
class TopicMeasurements(Document):
    """Measurements of one topic by a host or a subscriber.

    p90: latency in seconds that 90% of the messages did not exceed, waiting ones included; None without messages
    rate: received messages per second over the last `span` seconds; None if not measured
    interval: seconds of a core per message; None if not measured
    backlog: messages in the log that are not processed yet
    done, failed, repeated: messages since the topic was assigned to the host
    """

    p90: Number | None = None
    rate: Number | None = None
    interval: Number | None = None
    backlog: Count = 0
    done: Count = 0
    failed: Count = 0
    repeated: Count = 0
    span: Number = 0.0


@dataclass(frozen=True)
class EdgeReport(Document):
    """Measurements of all topics of a reporter. `beat` counts its reports."""

    name: Token
    beat: Count
    topics: Annotated[Mapping[str, TopicMeasurements], mapping_of(nested(TopicMeasurements))]


def _check_load(document: EdgeTopic | EdgeHostDocument) -> None:
    """Apply the limits of `TopicLoad` and `Host`."""
    try:
        document.placed  # noqa: B018
    except ConfigError as problem:
        raise RegistryError(problem.detail, **problem.facts) from None


EDGE = "tw_edge"
"""bucket of topics with processing functions, hosts and the assignment"""
EDGE_LEASES = "tw_edge_leases"
"""bucket of topic leases, and of the running hosts"""
EDGE_LEADER = "tw_edge_leader"
"""bucket of the controller lease"""
EDGE_POSITIONS = "tw_edge_positions"
"""bucket of the processed offset of each topic"""
EDGE_REPORTS = "tw_edge_reports"
"""bucket of the latency reports of hosts and subscribers"""

NEAR = "tw.near.>"
"""subjects that stay at a host"""
ASSIGNMENT = "assignment"


def edge_log(topic: str, *, near: bool = False) -> str:
    """Return the name of the input log of a topic; `near`: a log that stays at its host."""
    return ("tw_near_log_" if near else "tw_edge_log_") + check_topic(topic).replace(".", "~")


def edge_subject(topic: str, writer: str = "*", *, near: bool = False) -> str:
    """Return the subject of one publisher or processing function on a topic; a pattern for all by default."""
    return f"tw.{'near' if near else 'edge'}.{check_topic(topic)}.{writer}"


def writer_of(topic: str) -> str:
    """Return the publisher name of the processing function of a topic; no other publisher can have this name."""
    return "~" + topic.replace(".", "~")


def edge_key(kind: Literal["topic", "host", "model"], name: str) -> str:
    """Return the key of a topic with a processing function, of a host, or of the model of a topic's function."""
    return f"{kind}.{name}"
