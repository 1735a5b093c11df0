"""Translators as processes whose settings are chosen, and which tell what they have done."""

from __future__ import annotations

import asyncio
from typing import Any

from thinwire.brokers.protocol_broker import Broker
from thinwire.clock import WallClock
from thinwire.services.translator.translator_service_service import TranslatorService
from thinwire_lab.live.service_roles_services import ServiceRole


class TellingTranslatorRole(ServiceRole):
    """A translator that can be asked what it has read and encoded.

    settings: of `TranslatorService`
    """

    def __init__(self, url: str, **settings: Any) -> None:
        super().__init__(url)
        self.settings = settings

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`counts`: events of a topic that it has read, and how often it has encoded one; `classes`: how many of its
        classes have a channel of which it was said."""
        work = self._service.works.get(command["topic"])
        if command["do"] == "classes":
            return {"said": work.said if work is not None else 0}
        if work is None or work.translation is None:
            return {"events": 0, "encodings": 0}
        counts = work.translation.counts
        return {"events": counts.events, "encodings": counts.encodings}

    async def _start(self, broker: Broker) -> None:
        self._service = TranslatorService(broker, WallClock(), **self.settings)
        task = asyncio.create_task(self._service.run(), name="translator")
        self._stack.push_async_callback(_end, task)
        await self._service.ready()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
