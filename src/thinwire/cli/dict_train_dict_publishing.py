"""A dictionary that somebody trained, given to a topic at a broker."""

from __future__ import annotations

import time

from thinwire.cli.connection_options_live import Access
from thinwire.dictionaries import Dictionary
from thinwire.errors import UnknownTopic
from thinwire.schema import Schema
from thinwire.services.dictionary_trainer.dictionary_upload import Told, give
from thinwire.topics.registry_client import current_schema, open_registry

DAY = 86_400.0


async def registered(access: Access, topic: str) -> Schema | None:
    """The schema of a topic; None where it has none there."""
    async with access.bus() as bus:
        try:
            return await current_schema(await open_registry(bus.broker), topic)
        except UnknownTopic:
            return None


async def publish(access: Access, topic: str, dictionary: Dictionary, days: float) -> Told:
    """Store a dictionary and tell the publishers of a topic, who use it from then on for so many days."""
    async with access.bus() as bus:
        by = "thinwire dict train"
        return await give(bus.broker, topic, dictionary, now=time.time(), seconds=days * DAY, by=by)
