"""Names at the broker: buckets, logs, subjects, and keys of the registry bucket, as listed in docs/wire.md.

>>> log_of("building.rooms"), data_subject("building.rooms", "p1"), key_subject("building.rooms", "p1")
('tw_log_building~rooms', 'tw.log.building.rooms.p1.d', 'tw.log.building.rooms.p1.k')
>>> publisher_in("tw.log.building.rooms.p1.d"), is_key("tw.log.building.rooms.p1.k")
('p1', True)
>>> topic_key("building.rooms"), subscription_key("building.rooms", "hvac")
('topic.building.rooms', 'subscription.building.rooms.hvac')
>>> parse_registry_key("schema.building.rooms.00ff00ff00ff00ff").topic
'building.rooms'
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from thinwire.errors import ConfigError, RegistryError

REGISTRY = "tw_registry"
"""bucket of schemas, topics, configurations, subscriptions and publishers"""
CURSORS = "tw_cursors"
"""bucket of the cursors of durable subscriptions and watches"""
FACTS = "tw_facts"
"""bucket of static properties"""
DEAD_LOG = "tw_dead"
"""log of rejected events"""
CHANNELS = "tw_channels"
"""bucket of channel documents: how each demand class of a topic is served"""
LEASES = "tw_leases"
"""bucket of translator leases by topic, and of the running translators"""
CHECKPOINTS = "tw_checkpoints"
"""bucket of checkpoint indexes and their pieces"""
DICTIONARIES = "tw_dictionaries"
"""bucket of dictionaries by hash, and of dictionary documents by topic"""
WATCHES = "tw_watches"
"""bucket of watches and their watchers"""
WATCH_LEASES = "tw_watch_leases"
"""bucket of watch leases, and of the running watch services"""
SAMPLERS = "tw_samplers"
"""bucket of dictionary leases by topic, and of the running dictionary trainers"""

MAX_TOPIC = 200
_LOG = "tw_log_"
_WORD = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_topic(topic: str) -> str:
    """Return `topic` if it is a valid topic name."""
    if not topic or len(topic) > MAX_TOPIC or not all(_WORD.fullmatch(word) for word in topic.split(".")):
        rule = f"a topic is words of letters, digits, _ and - joined by dots, at most {MAX_TOPIC} characters"
        raise ConfigError(rule, topic=topic)
    return topic


def check_name_token(name: str, what: str) -> str:
    """Return `name` if it is a valid token of a subject; `what` names it in the error."""
    if not _WORD.fullmatch(name):
        raise ConfigError("use 1 to 64 letters, digits, _ and -", **{what: name})
    return name


def log_of(topic: str) -> str:
    """Name of the log of a topic."""
    return _LOG + topic.replace(".", "~")


def topic_of(log: str) -> str | None:
    """Topic of a topic log; None for other logs.

    >>> topic_of("tw_log_building~rooms"), topic_of("KV_tw_registry")
    ('building.rooms', None)
    """
    return log.removeprefix(_LOG).replace("~", ".") if log.startswith(_LOG) else None


def data_subject(topic: str, publisher: str) -> str:
    """Subject of a publisher's data messages."""
    return f"tw.log.{topic}.{publisher}.d"


def key_subject(topic: str, publisher: str) -> str:
    """Subject of the messages that start a publisher's key frame rounds; readers seek by it."""
    return f"tw.log.{topic}.{publisher}.k"


def publisher_subjects(topic: str, publisher: str = "*") -> str:
    """Pattern for all subjects of a publisher, or of every publisher, in the log of a topic."""
    return f"tw.log.{topic}.{publisher}.*"


KEY_SUFFIX = ".k"
"""end of the subject of messages that start a key frame round"""


@lru_cache(maxsize=4096)  # publishers reuse few subjects
def publisher_in(subject: str) -> str:
    """Publisher in the subject of a log or channel message."""
    return subject.rsplit(".", 2)[1]


def is_key(subject: str) -> bool:
    """Return True if messages with this subject start a key frame round."""
    return subject.endswith(KEY_SUFFIX)


def channel_log_of(topic: str) -> str:
    """Name of the log that holds all channels of a topic."""
    return "tw_chan_" + topic.replace(".", "~")


def channel_data_subject(topic: str, class_id: str, publisher: str) -> str:
    """Subject of a class's data messages for one publisher."""
    return f"tw.chan.{topic}.{class_id}.{publisher}.d"


def channel_key_subject(topic: str, class_id: str, publisher: str) -> str:
    """Subject of the messages that start a class's key frame rounds for one publisher."""
    return f"tw.chan.{topic}.{class_id}.{publisher}.k"


def channel_subjects(topic: str, class_id: str = "*", publisher: str = "*") -> str:
    """Pattern for all subjects of a class, or of every class."""
    return f"tw.chan.{topic}.{class_id}.{publisher}.*"


def class_in(subject: str) -> str:
    """Class in the subject of a channel message."""
    return subject.rsplit(".", 3)[1]


def channel_request_subject(topic: str, class_id: str = "*") -> str:
    """Subject on which the translator of a topic receives key frame requests for a channel."""
    return f"tw.chask.{topic}.{class_id}"


def translator_subject(topic: str) -> str:
    """Subject on which the translator of a topic answers liveness requests."""
    return f"tw.translator.{topic}"


def watch_log_of(watch: str) -> str:
    """Name of the log of a watch's records."""
    return f"tw_watch_{watch}"


def watch_subject(watch: str, *, key: bool = False) -> str:
    """Subject of a watch's records; `key` for records with the complete state, where a reader can start."""
    return f"tw.watch.{watch}.{'k' if key else 'd'}"


def watch_subjects(watch: str) -> str:
    """Pattern for all subjects of a watch."""
    return f"tw.watch.{watch}.*"


def evaluator_subject(watch: str = "all") -> str:
    """Subject on which the evaluator of a watch, or any watch service, answers liveness requests."""
    return f"tw.watching.{watch}"


def request_subject(topic: str, publisher: str = "*") -> str:
    """Subject on which a publisher receives key frame requests."""
    return f"tw.ask.{topic}.{publisher}"


def request_all_subject(topic: str) -> str:
    """Subject on which all publishers of a topic receive requests."""
    return f"tw.call.{topic}"


def alive_subject(identity: str) -> str:
    """Subject on which a subscription answers liveness probes."""
    return f"tw.alive.{identity}"


def dead_subject(topic: str) -> str:
    """Subject of the rejected events of a topic."""
    return f"tw.dead.{topic}"


def dictionary_subject(topic: str) -> str:
    """Subject on which changes to a topic's dictionaries are announced."""
    return f"tw.dict.{topic}"


def service_subject(verb: str) -> str:
    """Subject on which the registry answers requests."""
    return f"tw.registry.{verb}"


class DocumentKind(StrEnum):
    """First token of a key in the registry bucket."""

    SCHEMA = "schema"
    TOPIC = "topic"
    CONFIG = "config"
    SUBSCRIPTION = "subscription"
    PUBLISHER = "publisher"


class RegistryKey(NamedTuple):
    """Parts of a registry key. `name` is a fingerprint, a subscription's identity, a publisher's name, or empty."""

    kind: DocumentKind
    topic: str
    name: str = ""


def topic_key(topic: str) -> str:
    """Key of a topic's document."""
    return f"{DocumentKind.TOPIC}.{check_topic(topic)}"


def config_key(topic: str) -> str:
    """Key of the configuration of a topic's publishers."""
    return f"{DocumentKind.CONFIG}.{check_topic(topic)}"


def schema_key(topic: str, fingerprint: bytes | str) -> str:
    """Key of one version of a topic's schema."""
    text = fingerprint if isinstance(fingerprint, str) else fingerprint.hex()
    return f"{DocumentKind.SCHEMA}.{check_topic(topic)}.{check_name_token(text, 'fingerprint')}"


def subscription_key(topic: str, identity: str) -> str:
    """Key of a subscription."""
    return f"{DocumentKind.SUBSCRIPTION}.{check_topic(topic)}.{check_name_token(identity, 'identity')}"


def publisher_key(topic: str, name: str) -> str:
    """Key of a publisher."""
    return f"{DocumentKind.PUBLISHER}.{check_topic(topic)}.{check_name_token(name, 'name')}"


def keys_of(kind: DocumentKind, topic: str) -> str:
    """Pattern for the keys of all schemas, subscriptions or publishers of a topic."""
    return f"{kind}.{check_topic(topic)}.*"


def parse_registry_key(key: str) -> RegistryKey:
    """Split a key of the registry bucket; `RegistryError` if it is not one."""
    prefix, _, rest = key.partition(".")
    try:
        kind = DocumentKind(prefix)
    except ValueError:
        raise RegistryError(f"{key}: not a key of the registry", key=key, kinds=sorted(DocumentKind)) from None
    try:
        if kind in (DocumentKind.TOPIC, DocumentKind.CONFIG):
            return RegistryKey(kind, check_topic(rest))
        topic, _, name = rest.rpartition(".")
        return RegistryKey(kind, check_topic(topic), check_name_token(name, "name"))
    except ConfigError as problem:
        raise RegistryError(f"{key}: {problem.detail}", key=key) from None
