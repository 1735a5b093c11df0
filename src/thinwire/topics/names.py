"""What things are called at the broker: the subjects, logs and keys of docs/wire.md.

>>> log_of("building.rooms"), data_subject("building.rooms", "p1"), key_subject("building.rooms", "p1")
('tw_log_building~rooms', 'tw.log.building.rooms.p1.d', 'tw.log.building.rooms.p1.k')
>>> publisher_in("tw.log.building.rooms.p1.d"), is_key("tw.log.building.rooms.p1.k")
('p1', True)
"""

from __future__ import annotations

import re

from thinwire.errors import ConfigError

REGISTRY = "tw_registry"
"""the bucket of schemas, topics, configurations, subscriptions and publishers"""
CURSORS = "tw_cursors"
"""the bucket of what durable subscribers have worked off"""
FACTS = "tw_facts"
"""the bucket of facts that are told once"""
DEAD_LOG = "tw_dead"
CHANNELS = "tw_channels"
"""the bucket that says how each class of a topic is served"""
LEASES = "tw_leases"
"""the bucket of who translates which topic, and of the translators there are"""
CHECKPOINTS = "tw_checkpoints"
"""the bucket of checkpoints, in parts"""
DICTIONARIES = "tw_dictionaries"
"""the bucket of dictionaries, by their hash, and of what is said of them, by topic"""
WATCHES = "tw_watches"
"""the bucket of watches, and of who follows each"""
WATCH_LEASES = "tw_watch_leases"
"""the bucket of who evaluates which watch, and of the services there are"""
SAMPLERS = "tw_samplers"
"""the bucket of who looks after the dictionaries of which topic, and of the services there are"""

MAX_TOPIC = 200
_LOG = "tw_log_"
_WORD = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_topic(topic: str) -> str:
    """The topic, if it can be one."""
    if not topic or len(topic) > MAX_TOPIC or not all(_WORD.fullmatch(word) for word in topic.split(".")):
        rule = f"a topic is words of letters, digits, _ and - joined by dots, at most {MAX_TOPIC} characters"
        raise ConfigError(rule, topic=topic)
    return topic


def check_name_token(name: str, what: str) -> str:
    """The name, if it can be one word of a subject."""
    if not _WORD.fullmatch(name):
        raise ConfigError("use 1 to 64 letters, digits, _ and -", **{what: name})
    return name


def log_of(topic: str) -> str:
    """The log of a topic."""
    return _LOG + topic.replace(".", "~")


def topic_of(log: str) -> str | None:
    """The topic whose log this is; None where it is none of a topic.

    >>> topic_of("tw_log_building~rooms"), topic_of("KV_tw_registry")
    ('building.rooms', None)
    """
    return log.removeprefix(_LOG).replace("~", ".") if log.startswith(_LOG) else None


def data_subject(topic: str, publisher: str) -> str:
    """Where a publisher's frames go."""
    return f"tw.log.{topic}.{publisher}.d"


def key_subject(topic: str, publisher: str) -> str:
    """Where a publisher's rounds of key frames begin: the index of the log."""
    return f"tw.log.{topic}.{publisher}.k"


def publisher_subjects(topic: str, publisher: str = "*") -> str:
    """All subjects of a publisher in the log of a topic; of every one by default."""
    return f"tw.log.{topic}.{publisher}.*"


def publisher_in(subject: str) -> str:
    """The publisher a log subject belongs to."""
    return subject.rsplit(".", 2)[1]


def is_key(subject: str) -> bool:
    """Does a round of key frames begin with a message under this subject?"""
    return subject.endswith(".k")


def channel_log_of(topic: str) -> str:
    """The log of a topic's channels."""
    return "tw_chan_" + topic.replace(".", "~")


def channel_data_subject(topic: str, class_id: str, publisher: str) -> str:
    """Where the frames of a class go that tell of one publisher."""
    return f"tw.chan.{topic}.{class_id}.{publisher}.d"


def channel_key_subject(topic: str, class_id: str, publisher: str) -> str:
    """Where the rounds of key frames of a class begin."""
    return f"tw.chan.{topic}.{class_id}.{publisher}.k"


def channel_subjects(topic: str, class_id: str = "*", publisher: str = "*") -> str:
    """All subjects of a class; of every class by default."""
    return f"tw.chan.{topic}.{class_id}.{publisher}.*"


def class_in(subject: str) -> str:
    """The class a channel subject belongs to."""
    return subject.rsplit(".", 3)[1]


def channel_ask_subject(topic: str, class_id: str = "*") -> str:
    """Where the translator of a topic listens for subscribers that lost their way in a channel."""
    return f"tw.chask.{topic}.{class_id}"


def translator_subject(topic: str) -> str:
    """Where the translator of a topic answers that it is there."""
    return f"tw.translator.{topic}"


def watch_log_of(watch: str) -> str:
    """The log of what a watch has told."""
    return f"tw_watch_{watch}"


def watch_subject(watch: str, *, key: bool = False) -> str:
    """Where the records of a watch go; `key`: those with its whole state, from which reading can begin."""
    return f"tw.watch.{watch}.{'k' if key else 'd'}"


def watch_subjects(watch: str) -> str:
    """All subjects of a watch."""
    return f"tw.watch.{watch}.*"


def evaluator_subject(watch: str = "all") -> str:
    """Where whoever evaluates a watch answers that it is there; for all watches together, where any service does."""
    return f"tw.watching.{watch}"


def ask_subject(topic: str, publisher: str = "*") -> str:
    """Where a publisher listens for requests."""
    return f"tw.ask.{topic}.{publisher}"


def call_subject(topic: str) -> str:
    """Where all publishers of a topic listen."""
    return f"tw.call.{topic}"


def alive_subject(identity: str) -> str:
    """Where a subscription says that it is still there."""
    return f"tw.alive.{identity}"


def dead_subject(topic: str) -> str:
    """Where refused events go."""
    return f"tw.dead.{topic}"


def dictionary_subject(topic: str) -> str:
    """Where publishers hear of the dictionaries of a topic."""
    return f"tw.dict.{topic}"


def service_subject(verb: str) -> str:
    """Where the registry answers."""
    return f"tw.registry.{verb}"
