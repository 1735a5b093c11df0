"""A nats-server as a child process, used by `embedded://`, tests and benchmarks.

    async with EmbeddedServer() as server:
        broker = await connect(server.url)

The server listens on the loopback address only. It stores its messages in a given directory, or in a temporary one that
is removed when it stops. On Linux the kernel terminates the server together with the thread that started it, also if
that process is killed; start it in a thread that lives as long. On other systems a killed process leaves the server
running.

If the server is killed, acknowledged messages are not lost, because the operating system has them. A power failure can
lose the last two minutes.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Self

from thinwire.brokers.broker_url import Address, OpenedBroker, read_url
from thinwire.errors import BrokerRefused, BrokerUnavailable, ConfigError, MissingExtra

# Runs in the child process: requests a signal from the kernel for the end of the parent, then executes the server.
# A function between fork and exec would do the same, but is not safe in a process with threads.
_LAUNCH = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def find_binary() -> str:
    """Return the path of the nats-server program."""
    folders = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]
    found = shutil.which("nats-server", path=os.pathsep.join(map(str, folders))) or shutil.which("nats-server")
    if found is None:
        raise MissingExtra("the embedded broker needs the program nats-server", extra="nats")
    return found


def launch(binary: str, config: Path, output: Path, lock: int) -> subprocess.Popen[bytes]:
    """Start the server. It holds the lock of its directory and ends with this process."""
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid())]
    with output.open("wb") as log:
        return subprocess.Popen(
            [*launcher, binary, "-c", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock,),
            start_new_session=True,  # Ctrl-C reaches only this process, which then stops the server
        )


_HINTS = {
    "address already in use": "The port is taken: choose another one, or 0 for a free one. ",
    "no space left": "The disk is full: make room, or choose another directory. ",
    "permission denied": "Choose a directory that can be written to. ",
}
_PROBLEM_LEVELS = ("[ERR]", "[FTL]", "[WRN]")


class Directory:
    """The locked directory of a server; a temporary one if none is given."""

    def __init__(self, requested: Path | None) -> None:
        self.temporary = requested is None
        try:
            self.path = requested or Path(tempfile.mkdtemp(prefix="thinwire-nats-"))
            self.path.mkdir(parents=True, exist_ok=True)
            self.path = self.path.resolve()
            self.lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigError(f"the directory cannot be used: {error.strerror}", directory=str(requested)) from None
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.lock)
            advice = "another embedded server uses this directory: stop it, or choose another directory"
            raise BrokerRefused(advice, directory=str(self.path)) from None

        self.config, self.log = self.path / "server.conf", self.path / "server.log"
        self.output = self.path / "server.out"
        """output of the server before it opens its log"""

    def release(self) -> None:
        """Release the lock. A temporary directory is removed."""
        os.close(self.lock)
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)

    def write_config(self, text: str) -> None:
        """Write the configuration, readable only for its owner, because it may contain passwords."""
        for stale in self.path.glob("*.ports"):
            stale.unlink()
        self.config.touch(mode=0o600)
        self.config.write_text(text)

    def log_tail(self, lines: int) -> str:
        """Return the last lines of the log, or of the output if there is no log."""
        for path in (self.log, self.output):
            with suppress(OSError):
                tail = path.read_text(errors="replace").splitlines()[-lines:]
                if tail:
                    return "\n".join(tail)
        return ""

    def describe_failure(self) -> str:
        """Return advice and the last errors of the log, for a server that did not start."""
        tail = self.log_tail(200).splitlines()
        problems = [line for line in tail if any(level in line for level in _PROBLEM_LEVELS)]
        shown = "\n".join(problems[-8:] or tail[-8:])
        hint = "".join(advice for text, advice in _HINTS.items() if text in shown.lower())
        return f"{hint}Its log ends with:\n{shown}\n"


LOOPBACK = "127.0.0.1"
_POLL_INTERVAL = 0.01
_LEAF_PORT = re.compile(r"leafnode connections on \S+:(\d+)")
_START_TIMEOUT = 20.0
"""seconds until the server must accept connections"""
_STOP_TIMEOUT = 10.0
"""seconds after which a stopping server is killed"""


class EmbeddedServer:
    """A nats-server with JetStream as a child process.

    directory: of messages, configuration and log; temporary by default
    port: port of clients; 0 for a free one
    leaves: port for leaf nodes; 0 for a free one, None for none
    hub: address of a server that this one joins as leaf node `name`; its storage remains separate
    inside: patterns of subjects that a leaf node neither exports nor imports
    lines: additional lines of the configuration; the last line of a setting has precedence
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        port: int = 0,
        leaves: int | None = None,
        hub: str | None = None,
        name: str | None = None,
        inside: Sequence[str] = (),
        lines: Sequence[str] = (),
    ) -> None:
        if hub is not None and not name:
            raise ConfigError("a leaf node needs a name", hub=hub.rpartition("@")[2])
        self.port, self.lines = port, tuple(lines)
        self.leaves, self.hub, self.name, self.inside = leaves, hub, name, tuple(inside)
        self._requested_directory = Path(directory) if directory is not None else None
        self._directory: Directory | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address for clients."""
        return f"nats://{LOOPBACK}:{self.port}"

    @property
    def leaf_url(self) -> str | None:
        """Address for leaf nodes, or None."""
        return None if self.leaves is None else f"nats-leaf://{LOOPBACK}:{self.leaves}"

    @property
    def directory(self) -> Path:
        """Directory of messages, configuration and log."""
        return self._used_directory().path

    @property
    def temporary(self) -> bool:
        """Whether the directory is removed when the server stops."""
        return self._requested_directory is None

    @property
    def pid(self) -> int:
        """Process id of the server."""
        if self._process is None:
            raise BrokerUnavailable("the embedded server has not been started")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def start(self) -> Self:
        """Start the server and wait until it accepts connections."""
        for _ in self._starting():
            await asyncio.sleep(_POLL_INTERVAL)
        return self

    def start_now(self) -> Self:
        """Like `start`, without an event loop."""
        for _ in self._starting():
            time.sleep(_POLL_INTERVAL)
        return self

    async def stop(self) -> None:
        """Stop the server gracefully. A temporary directory is removed."""
        for _ in self._stopping():
            await asyncio.sleep(_POLL_INTERVAL)

    def kill(self) -> None:
        """Kill the server. Directory and port remain reserved for `restart`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    async def restart(self) -> None:
        """Stop the server if it runs, and start it with the same port and directory."""
        for _ in self._ending():
            await asyncio.sleep(_POLL_INTERVAL)
        await self.start()

    def log_tail(self, lines: int = 8) -> str:
        """Return the last lines of the server's log."""
        return self._used_directory().log_tail(lines)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        return self.start_now()

    def __exit__(self, *error: object) -> None:
        for _ in self._stopping():
            time.sleep(_POLL_INTERVAL)

    def _used_directory(self) -> Directory:
        if self._directory is None:
            raise BrokerUnavailable("the embedded server has not been started")
        return self._directory

    def _starting(self) -> Iterator[None]:
        """Start the server; yield between checks whether it is ready."""
        if self.running:
            return
        binary = find_binary()
        directory = self._directory = self._directory or Directory(self._requested_directory)
        try:
            directory.write_config(self._configuration(directory))
            self._process = launch(binary, directory.config, directory.output, directory.lock)
            yield from self._wait_ready(directory, time.monotonic() + _START_TIMEOUT)
        except BaseException:
            self._abandon()
            raise

    def _wait_ready(self, directory: Directory, deadline: float) -> Iterator[None]:
        while not self._read_ports(directory):
            if not self.running:
                raise BrokerUnavailable(f"the embedded server ended at once. {directory.describe_failure()}")
            if time.monotonic() > deadline:
                raise BrokerUnavailable(f"the embedded server did not start in time. {directory.describe_failure()}")
            yield

    def _read_ports(self, directory: Directory) -> bool:
        """Return whether the server listens: it then writes its ports to a file. An incomplete file is not JSON."""
        for path in directory.path.glob("*.ports"):
            with suppress(ValueError, OSError):
                ports = json.loads(path.read_text())
                self.port = int(ports["nats"][0].rsplit(":", 1)[1])
                return self._read_leaf_port(directory)
        return False

    def _read_leaf_port(self, directory: Directory) -> bool:
        """Read the port for leaf nodes from the log; the file of ports does not contain it."""
        if self.leaves != 0:
            return True
        match = _LEAF_PORT.search(directory.log_tail(200))
        self.leaves = int(match[1]) if match is not None else 0
        return match is not None

    def _configuration(self, directory: Directory) -> str:
        store = f"store_dir: {json.dumps(str(directory.path / 'store'))}"
        if self.hub is not None:
            store += f", domain: {json.dumps(self.name)}"
        lines = [
            f"host: {LOOPBACK}",
            f"port: {self.port or -1}",
            f"ports_file_dir: {json.dumps(str(directory.path))}",
            f"log_file: {json.dumps(str(directory.log))}",
            "logfile_size_limit: 16MB",
            f"jetstream {{ {store} }}",
        ]
        return "\n".join([*lines, *self._leaf_node_lines(), *self.lines]) + "\n"

    def _leaf_node_lines(self) -> list[str]:
        lines = [] if self.name is None else [f"server_name: {json.dumps(self.name)}"]
        if self.leaves is not None:
            lines.append(f"leafnodes {{ host: {LOOPBACK}, port: {self.leaves or -1} }}")
        elif self.hub is not None:
            private = json.dumps(list(self.inside))
            remote = f"url: {json.dumps(self.hub)}, deny_exports: {private}, deny_imports: {private}"
            lines.append(f"leafnodes {{ remotes: [ {{ {remote} }} ] }}")
        return lines

    def _stopping(self) -> Iterator[None]:
        try:
            yield from self._ending()
        finally:  # also if the waiting task is cancelled
            self._abandon()

    def _ending(self) -> Iterator[None]:
        if self._process is None or not self.running:
            return
        self._process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_TIMEOUT
        while self.running and time.monotonic() < deadline:
            yield
        self.kill()

    def _abandon(self) -> None:
        self.kill()
        self._process = None
        if self._directory is not None:
            self._directory.release()
            self._directory = None


async def open_embedded(address: Address, options: Mapping[str, Any], stack: AsyncExitStack) -> OpenedBroker:
    """Start a server in the directory that the URL names, or a temporary one, and connect to it."""
    from thinwire.brokers.nats.broker import open_nats  # not at the top: NATS is not needed to start a server

    server = await stack.enter_async_context(EmbeddedServer(directory=address.rest or None))
    client, services = [(await open_nats(read_url(server.url), options, stack)).broker for _ in range(2)]
    return OpenedBroker(client, services)
