"""Processes of the demonstration: `python -m thinwire.demo.process_group ROLE SETTINGS`.

They are the workers of the live benches with other roles, each in a session of its own: Ctrl-C is for the one who
watches, who then ends the others in order.
"""

from __future__ import annotations

import asyncio
import json
import sys
from tempfile import TemporaryFile

from thinwire.demo import process_worker as worker
from thinwire.demo.process_group_processes import Worker, environment

ROLES = {
    "publishing": "thinwire.demo.demo_publisher_publishing:PublishingRole",
    "subscribing": "thinwire.demo.demo_subscriber:SubscribingRole",
    "translating": "thinwire.demo.demo_translator:TranslatingRole",
}


class Child(Worker):
    """One process of the demonstration."""

    async def launch(self) -> None:
        """Start it; its first answer says that it is ready."""
        if self._words is None:
            self._words = TemporaryFile()  # noqa: SIM115 - closed when it leaves
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __name__, self.role, json.dumps(self.settings)),
            stdin=pipe,
            stdout=pipe,
            stderr=self._words,
            limit=worker.LINE,
            env=environment(),
            start_new_session=True,
        )


if __name__ == "__main__":
    worker.ROLES.update(ROLES)
    worker.main(sys.argv[1], sys.argv[2])
