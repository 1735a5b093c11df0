"""The embedded server itself."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from thinwire.brokers.embedded.server_binary import find_binary, launch
from thinwire.brokers.embedded.server_directory import Directory
from thinwire.errors import BrokerUnavailable, ConfigError

LOOPBACK = "127.0.0.1"
_POLL = 0.01
_LEAVES = re.compile(r"leafnode connections on \S+:(\d+)")
_STOPPING = 10.0
"""seconds that it may take to stop; then it is killed"""


class EmbeddedServer:
    """A nats-server with JetStream, as a child of this process.

    directory: where it keeps its messages, its configuration and its log; a temporary one by default
    port, monitor: fixed ports; 0 takes a free one, None (monitor) none
    max_payload, max_store: limits in bytes; what the server has by default where None
    sync: "interval" or "always": what a power failure may take
    jetstream: without it the server stores nothing
    leaves: a fixed port where other servers join as leaf nodes; 0 takes a free one, None none
    hub: the address of a server that this one joins as a leaf node, under its `name`; what it stores is its own
    inside: patterns of subjects that a leaf node neither lets out nor in
    lines: more lines of its configuration
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        port: int = 0,
        monitor: int | None = None,
        max_payload: int | None = None,
        max_store: int | None = None,
        sync: Literal["interval", "always"] = "interval",
        jetstream: bool = True,
        leaves: int | None = None,
        hub: str | None = None,
        name: str | None = None,
        inside: Sequence[str] = (),
        lines: Sequence[str] = (),
        binary: str | None = None,
        start_timeout: float = 20.0,
    ) -> None:
        if sync not in ("interval", "always"):
            raise ConfigError("choose 'interval' or 'always'", sync=sync)
        if hub is not None and not name:
            raise ConfigError("a leaf node needs a name", hub=hub.rpartition("@")[2])
        self.port, self.monitor = port, monitor
        self.max_payload, self.max_store, self.sync = max_payload, max_store, sync
        self.jetstream, self.lines, self.start_timeout = jetstream, tuple(lines), start_timeout
        self.leaves, self.hub, self.name, self.inside = leaves, hub, name, tuple(inside)
        self._given = Path(directory) if directory is not None else None
        self._place: Directory | None = None
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{LOOPBACK}:{self.port}"

    @property
    def monitor_url(self) -> str | None:
        """Where the server tells how it is, over HTTP; None if it was not asked to."""
        return None if self.monitor is None else f"http://{LOOPBACK}:{self.monitor}"

    @property
    def leaf_url(self) -> str | None:
        """Where other servers join as leaf nodes; None if they cannot."""
        return None if self.leaves is None else f"nats-leaf://{LOOPBACK}:{self.leaves}"

    @property
    def directory(self) -> Path:
        """Where everything of this server is."""
        return self._taken().path

    @property
    def temporary(self) -> bool:
        """Does its directory go when it stops?"""
        return self._given is None

    @property
    def pid(self) -> int:
        """The process of the server."""
        if self._process is None:
            raise BrokerUnavailable("the embedded server has not been started")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def start(self) -> Self:
        """Start it, and wait until it takes connections."""
        for _ in self._starting():
            await asyncio.sleep(_POLL)
        return self

    def start_now(self) -> Self:
        """Like `start`, for callers without an event loop."""
        for _ in self._starting():
            time.sleep(_POLL)
        return self

    async def stop(self) -> None:
        """Let it finish and write what it holds; a temporary directory goes."""
        for _ in self._stopping():
            await asyncio.sleep(_POLL)

    def stop_now(self) -> None:
        """Like `stop`, for callers without an event loop."""
        for _ in self._stopping():
            time.sleep(_POLL)

    def kill(self) -> None:
        """End it without a word, as a crash would; the directory and the port stay for `restart`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    async def restart(self) -> None:
        """Start it again on the same port and directory, after ending it if it still runs."""
        for _ in self._ending():
            await asyncio.sleep(_POLL)
        await self.start()

    def log_tail(self, lines: int = 8) -> str:
        """The last lines of the server's log."""
        return self._taken().log_tail(lines)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        return self.start_now()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_now()

    def _taken(self) -> Directory:
        if self._place is None:
            raise BrokerUnavailable("the embedded server has not been started")
        return self._place

    def _starting(self) -> Iterator[None]:
        """Every step is one look at whether it is up."""
        if self.running:
            return
        binary = self._binary or find_binary()
        place = self._place = self._place or Directory(self._given)
        try:
            place.write_config(self._configuration(place))
            self._process = launch(binary, place.config, place.output, place.lock)
            yield from self._coming_up(place, time.monotonic() + self.start_timeout)
        except BaseException:
            self._abandon()
            raise

    def _coming_up(self, place: Directory, deadline: float) -> Iterator[None]:
        while not self._ports_known(place):
            if not self.running:
                raise BrokerUnavailable(f"the embedded server ended at once. {place.trouble()}")
            if time.monotonic() > deadline:
                raise BrokerUnavailable(f"the embedded server is not up in time. {place.trouble()}")
            yield

    def _ports_known(self, place: Directory) -> bool:
        """The server writes its ports into a file once it listens; half a file is not JSON yet."""
        for path in place.path.glob("*.ports"):
            with suppress(ValueError, OSError):
                ports = json.loads(path.read_text())
                self.port = int(ports["nats"][0].rsplit(":", 1)[1])
                if self.monitor is not None:
                    self.monitor = int(ports["monitoring"][0].rsplit(":", 1)[1])
                return self._leaves_known(place)
        return False

    def _leaves_known(self, place: Directory) -> bool:
        """Its file of ports leaves this one out; its log has it."""
        if self.leaves != 0:
            return True
        told = _LEAVES.search(place.log_tail(200))
        self.leaves = int(told[1]) if told is not None else 0
        return told is not None

    def _configuration(self, place: Directory) -> str:
        lines = [
            f"host: {LOOPBACK}",
            f"port: {self.port or -1}",
            f"ports_file_dir: {json.dumps(str(place.path))}",
            f"log_file: {json.dumps(str(place.log))}",
            "logfile_size_limit: 16MB",
        ]
        if self.monitor is not None:
            lines.append(f'http: "{LOOPBACK}:{self.monitor or -1}"')
        if self.max_payload is not None:
            lines.append(f"max_payload: {self.max_payload}")
            lines.append(f"max_pending: {max(64 << 20, 2 * self.max_payload)}")
        if self.jetstream:
            store = [f"store_dir: {json.dumps(str(place.path / 'store'))}"]
            if self.max_store is not None:
                store.append(f"max_file_store: {self.max_store}")
            if self.sync == "always":
                store.append("sync_interval: always")
            if self.hub is not None:
                store.append(f"domain: {json.dumps(self.name)}")
            lines.append("jetstream {" + ", ".join(store) + "}")
        return "\n".join([*lines, *self._joined(), *self.lines]) + "\n"

    def _joined(self) -> list[str]:
        """How it is joined to others."""
        lines = [] if self.name is None else [f"server_name: {json.dumps(self.name)}"]
        if self.leaves is not None:
            lines.append(f"leafnodes {{ host: {LOOPBACK}, port: {self.leaves or -1} }}")
        elif self.hub is not None:
            kept = json.dumps(list(self.inside))
            remote = f"url: {json.dumps(self.hub)}, deny_exports: {kept}, deny_imports: {kept}"
            lines.append(f"leafnodes {{ remotes: [ {{ {remote} }} ] }}")
        return lines

    def _stopping(self) -> Iterator[None]:
        try:
            yield from self._ending()
        finally:  # also when whoever waits is cancelled
            self._abandon()

    def _ending(self) -> Iterator[None]:
        if self._process is None or not self.running:
            return
        self._process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOPPING
        while self.running and time.monotonic() < deadline:
            yield
        self.kill()

    def _abandon(self) -> None:
        self.kill()
        self._process = None
        if self._place is not None:
            self._place.leave()
            self._place = None
