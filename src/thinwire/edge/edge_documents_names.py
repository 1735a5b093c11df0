"""What the edge calls things at the broker.

>>> edge_log("region-7.gps"), edge_subject("region-7.gps", "taxi-1"), writer_of("region-7.gps")
('tw_edge_log_region-7~gps', 'tw.edge.region-7.gps.taxi-1', '~region-7~gps')
>>> edge_subject("region-7.gps", "taxi-1", near=True)
'tw.near.region-7.gps.taxi-1'
"""

from __future__ import annotations

from thinwire.topics.names import check_topic, check_word

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


def publisher_word(publisher: str) -> str:
    """A publisher's name, if it can be one; no function writes under such a word."""
    return check_word(publisher, "publisher")


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
