"""Under which key a document lies.

>>> topic_key("building.rooms"), subscription_key("building.rooms", "hvac")
('topic.building.rooms', 'subscription.building.rooms.hvac')
>>> parse("schema.building.rooms.00ff00ff00ff00ff")
Key(kind='schema', topic='building.rooms', name='00ff00ff00ff00ff')
"""

from __future__ import annotations

from typing import NamedTuple

from thinwire.errors import ConfigError, RegistryError
from thinwire.topics.names import check_topic, check_word

SCHEMA, TOPIC, CONFIG, SUBSCRIPTION, PUBLISHER = "schema", "topic", "config", "subscription", "publisher"
_NAMED = frozenset({SCHEMA, SUBSCRIPTION, PUBLISHER})
_BARE = frozenset({TOPIC, CONFIG})
KINDS = _NAMED | _BARE


class Key(NamedTuple):
    """A key taken apart; `name` is a fingerprint, a subscription's identity or a publisher's name."""

    kind: str
    topic: str
    name: str = ""


def topic_key(topic: str) -> str:
    """Where the current schema of a topic and its settings are."""
    return f"{TOPIC}.{check_topic(topic)}"


def config_key(topic: str) -> str:
    """Where it says what the publishers of a topic shall do."""
    return f"{CONFIG}.{check_topic(topic)}"


def schema_key(topic: str, fingerprint: bytes | str) -> str:
    """Where one version of a topic's schema is."""
    text = fingerprint if isinstance(fingerprint, str) else fingerprint.hex()
    return f"{SCHEMA}.{check_topic(topic)}.{check_word(text, 'fingerprint')}"


def subscription_key(topic: str, identity: str) -> str:
    """Where a subscription is."""
    return f"{SUBSCRIPTION}.{check_topic(topic)}.{check_word(identity, 'identity')}"


def publisher_key(topic: str, name: str) -> str:
    """Where a publisher is."""
    return f"{PUBLISHER}.{check_topic(topic)}.{check_word(name, 'name')}"


def parse(key: str) -> Key:
    """The parts of a key; refuses what is none of ours."""
    kind, _, rest = key.partition(".")
    topic, _, name = rest.rpartition(".") if kind in _NAMED else (rest, "", "")
    try:
        if kind in KINDS:
            return Key(kind, check_topic(topic), check_word(name, "name") if kind in _NAMED else "")
    except ConfigError as problem:
        raise RegistryError(f"{key}: {problem.detail}", key=key) from None
    raise RegistryError(f"{key}: not a key of the registry", key=key, kinds=sorted(KINDS))
