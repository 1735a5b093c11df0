"""The embedded server itself.

The program behind the embedded server, and how it is started.

The directory of an embedded server: its own while it runs.
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
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from thinwire.errors import BrokerRefused, BrokerUnavailable, ConfigError, MissingExtra

# Runs before the server, in its process: asks the kernel for a signal when the parent is gone, then becomes the server.
# A function run between fork and exec would do the same, but is not safe in a process with threads.
_LAUNCH = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def find_binary() -> str:
    """Where the nats-server of this environment is."""
    places = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]
    found = shutil.which("nats-server", path=os.pathsep.join(map(str, places))) or shutil.which("nats-server")
    if found is None:
        raise MissingExtra("the embedded broker needs the program nats-server", extra="nats")
    return found


def launch(binary: str, config: Path, output: Path, lock: int) -> subprocess.Popen[bytes]:
    """Start the server; it holds the lock of its directory as long as it lives, and dies with this process."""
    before = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid())]
    with output.open("wb") as written:
        return subprocess.Popen(
            [*before, binary, "-c", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            pass_fds=(lock,),
            start_new_session=True,  # a Ctrl-C is for this process, which then stops the server
        )


_HINTS = {
    "address already in use": "The port is taken: choose another one, or 0 for a free one. ",
    "no space left": "The disk is full: make room, or choose another directory. ",
    "permission denied": "Choose a directory that can be written to. ",
}
_TROUBLE = ("[ERR]", "[FTL]", "[WRN]")


class Directory:
    """A directory that one server at a time may use; a temporary one where none is given."""

    def __init__(self, given: Path | None) -> None:
        self.temporary = given is None
        try:
            self.path = _made(given)
            self.lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigError(f"the directory cannot be used: {error.strerror}", directory=str(given)) from None
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.lock)
            advice = "another embedded server works in this directory: stop it, or choose another directory"
            raise BrokerRefused(advice, directory=str(self.path)) from None

    def leave(self) -> None:
        """Let others have it; a temporary one goes."""
        os.close(self.lock)
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)

    @property
    def config(self) -> Path:
        return self.path / "server.conf"

    @property
    def log(self) -> Path:
        return self.path / "server.log"

    @property
    def output(self) -> Path:
        """What the server says before it has a log."""
        return self.path / "server.out"

    def write_config(self, text: str) -> None:
        """Only for its owner: it may hold passwords."""
        for stale in self.path.glob("*.ports"):
            stale.unlink()
        self.config.touch(mode=0o600)
        self.config.write_text(text)

    def log_tail(self, lines: int) -> str:
        """The last lines of the log; of what was said before there is one otherwise."""
        for path in (self.log, self.output):
            with suppress(OSError):
                tail = path.read_text(errors="replace").splitlines()[-lines:]
                if tail:
                    return "\n".join(tail)
        return ""

    def trouble(self) -> str:
        """What the log says about a server that did not come up, and what to do about it."""
        tail = self.log_tail(200).splitlines()
        told = "\n".join([line for line in tail if any(sign in line for sign in _TROUBLE)][-8:] or tail[-8:])
        hint = "".join(advice for sign, advice in _HINTS.items() if sign in told.lower())
        return f"{hint}Its log ends with:\n{told}\n"


def _made(given: Path | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="thinwire-nats-"))
    given.mkdir(parents=True, exist_ok=True)
    return given.resolve()


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
