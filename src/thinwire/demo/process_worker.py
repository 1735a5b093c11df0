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
from importlib.metadata import entry_points
from typing import Any, Protocol

LINE = 1 << 24
"""characters of a command, at most"""

ROLES: dict[str, str] = {}
"""role -> where it is written, `module:class`"""


class ProcessRole(Protocol):
    """What a process does. Settings come to its constructor by name."""

    async def open(self) -> None:
        """Become ready."""

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked, and say what came of it."""

    async def close(self) -> None: ...


async def work(role: ProcessRole) -> None:
    """Ready, then command by command until one says that this was all."""
    await role.open()
    _write_line({"ready": True})
    async for command in _commands():
        if command["do"] == "leave":
            break
        _write_line(await role.obey(command))
    await role.close()
    _write_line({"left": True})


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


def _write_line(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def find_role(name: str) -> str:
    """Where a role is written; distributions add roles through the entry point group `thinwire.roles`."""
    if name not in ROLES:
        for entry in entry_points(group="thinwire.roles"):
            ROLES.update(entry.load())
    return ROLES[name]


def main(name: str, settings: str) -> None:
    module, _, kind = find_role(name).partition(":")
    role: ProcessRole = getattr(import_module(module), kind)(**json.loads(settings))
    asyncio.run(work(role))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
