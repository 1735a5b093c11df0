"""One process of a measured chain: `python -m thinwire.demo.process_worker ROLE SETTINGS`.

It says `{"ready": true}` on its standard output, then takes one command a line from its standard input and answers
each with one line. Its parent is gone when the input ends, and so is it then.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from typing import Any, Protocol

LINE = 1 << 24
"""characters of a command, at most"""

ROLES = {
    "publisher": "thinwire_lab.live.load_roles_roles:PublisherRole",
    "subscriber": "thinwire_lab.live.load_roles_roles:SubscriberRole",
    "class subscriber": "thinwire_lab.live.load_roles:ClassSubscriberRole",
    "ordered subscriber": "thinwire_lab.live.dictionary_switch:OrderedSubscriberRole",
    "steady": "thinwire_lab.live.failover_roles:SteadyRole",
    "witness": "thinwire_lab.live.failover_roles:WitnessRole",
    "sweeping": "thinwire_lab.live.many_sources_class_sweep:SweepingRole",
    "swept": "thinwire_lab.live.many_sources_class_sweep:SweptRole",
    "walking": "thinwire_lab.live.tolerance_groups_conformance_walk:WalkingRole",
    "walked": "thinwire_lab.live.tolerance_groups_conformance_walk:WalkedRole",
    "registry": "thinwire_lab.live.service_roles_services:RegistryRole",
    "translator": "thinwire_lab.live.service_roles_services:TranslatorRole",
    "dictionaries": "thinwire_lab.live.service_roles_services:DictionariesRole",
    "switching": "thinwire_lab.live.dictionary_switch:SwitchingRole",
    "telling translator": "thinwire_lab.live.service_roles_class_translators:TellingTranslatorRole",
    "edge host": "thinwire_lab.live.edge.edge_load_roles:EdgeHostRole",
    "numbering": "thinwire_lab.live.kill_test_chaos_roles:NumberingRole",
    "recording": "thinwire_lab.live.kill_test_chaos_roles:RecordingRole",
}
"""role -> where it is written, `module:class`"""


class Role(Protocol):
    """What a process does. Settings come to its constructor by name."""

    async def open(self) -> None:
        """Become ready."""

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked, and say what came of it."""

    async def close(self) -> None: ...


async def work(role: Role) -> None:
    """Ready, then command by command until one says that this was all."""
    await role.open()
    _say({"ready": True})
    async for command in _commands():
        if command["do"] == "leave":
            break
        _say(await role.obey(command))
    await role.close()
    _say({"left": True})


async def _commands() -> AsyncIterator[dict[str, Any]]:
    lines: asyncio.Queue[str] = asyncio.Queue()
    reader = asyncio.StreamReader(limit=LINE)
    watcher = asyncio.create_task(_watch(reader, lines.put_nowait))
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        while True:
            yield json.loads(await lines.get())
    finally:
        watcher.cancel()
        transport.close()


async def _watch(reader: asyncio.StreamReader, put: Callable[[str], None]) -> None:
    """The parent's death must be seen while a command is being worked on, too."""
    while line := await reader.readline():
        put(line.decode())
    os._exit(1)


def _say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def main(name: str, settings: str) -> None:
    module, _, kind = ROLES[name].partition(":")
    role: Role = getattr(import_module(module), kind)(**json.loads(settings))
    asyncio.run(work(role))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
