"""The registry: schemas, topics and subscriptions as documents, and what they come to for publishers."""

from thinwire.control.registry.budget import Budget, budget, check_subscription
from thinwire.control.registry.client import (
    ask,
    current_schema,
    find_schema,
    open_registry,
    ping,
    put_publisher,
    put_subscription,
    put_subscriptions,
    register_schema,
    register_turtle,
    remove_publisher,
    remove_subscription,
    topic_document,
)
from thinwire.control.registry.core import Registry, Write
from thinwire.control.registry.documents import (
    Document,
    PublisherDocument,
    SubscriptionDocument,
    TopicDocument,
    decode,
    encode,
)
from thinwire.control.registry.keys import (
    config_key,
    publisher_key,
    schema_key,
    subscription_key,
    topic_key,
)
from thinwire.control.registry.projection import Projection
from thinwire.control.registry.server import RegistryService
from thinwire.control.registry.settings import ConfigDocument, Settings

__all__ = [
    "Budget",
    "ConfigDocument",
    "Document",
    "Projection",
    "PublisherDocument",
    "Registry",
    "RegistryService",
    "Settings",
    "SubscriptionDocument",
    "TopicDocument",
    "Write",
    "ask",
    "budget",
    "check_subscription",
    "config_key",
    "current_schema",
    "decode",
    "encode",
    "find_schema",
    "open_registry",
    "ping",
    "publisher_key",
    "put_publisher",
    "put_subscription",
    "put_subscriptions",
    "register_schema",
    "register_turtle",
    "remove_publisher",
    "remove_subscription",
    "schema_key",
    "subscription_key",
    "topic_document",
    "topic_key",
]
