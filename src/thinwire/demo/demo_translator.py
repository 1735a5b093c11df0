"""The translator of the demonstration: a process of its own that reports when it is asked."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from time import process_time
from typing import Any

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.clock import WallClock
from thinwire.demo.demo_scenario import TOPIC, rehearse
from thinwire.demo.view_model import COUNTED
from thinwire.services.translator.translation import Translation
from thinwire.services.translator.translator_service import TranslatorService

LOOK = 0.05
"""seconds between two looks for classes that are new: what the log has grown by meanwhile is a frame or two"""


class TranslatingRole:
    """Runs the translator's service. Commands: begin, report."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._before: dict[str, int] = {}
        self._cpu = process_time()

    async def open(self) -> None:
        rehearse()
        broker, _ = await open_broker(read_url(self.url), {}, self._opened)
        self._service = TranslatorService(broker, WallClock())
        self._tasks = [asyncio.create_task(self._service.run()), asyncio.create_task(self._look_for_classes())]
        await self._service.ready()

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        if command["do"] == "begin":
            self._cpu = process_time()
        for task in self._tasks:
            if task.done():
                task.result()
        return self._report()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._opened.aclose()

    async def _look_for_classes(self) -> None:
        """Note where in the log each class begins."""
        while True:
            self._note_beginnings()
            await asyncio.sleep(LOOK)

    def _note_beginnings(self) -> None:
        translation = self._translation()
        if translation is not None:
            for class_id in translation.counts.classes:
                self._before.setdefault(class_id, _log_bytes(translation))

    def _translation(self) -> Translation | None:
        """The work on the topic, once somebody needs a channel."""
        work = self._service.active_work.get(TOPIC)
        return getattr(work, "translation", None)

    def _report(self) -> dict[str, Any]:
        self._note_beginnings()
        translation = self._translation()
        report: dict[str, Any] = {"events": 0, "cpu": process_time() - self._cpu, "classes": {}}
        if translation is None:
            return report
        read = _log_bytes(translation)
        for class_id, counts in translation.counts.classes.items():
            counted = {name: getattr(counts, name) for name in COUNTED}
            report["classes"][class_id] = {**counted, "log_bytes": read - self._before[class_id]}
        return {**report, "events": translation.counts.events}


def _log_bytes(translation: Translation) -> int:
    """All frames of the log that it has read."""
    return sum(link.counts.frame_bytes for link in translation.log_decoder.links.values())
