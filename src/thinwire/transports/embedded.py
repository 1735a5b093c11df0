"""A real broker on this machine, for one process: what `embedded://`, the tests and the benchmarks run on.

    async with EmbeddedServer() as server:
        broker = await connect(server.url)

The server listens on the loopback address only and keeps its messages in a directory of its own: a temporary one that
goes when it stops, or a given one that stays. It dies with the process that started it, even when that one is killed:
on Linux the kernel sees to it (with the *thread* that started it, so start it in one that lives as long); elsewhere a
killed process leaves the server running until somebody stops it.

Killing the server loses nothing it has acknowledged, since the operating system still holds what was written. A power
failure may lose the last two minutes; `sync="always"` writes through to the disk before every acknowledgement, and
makes each of them several times slower.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
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

LOOPBACK = "127.0.0.1"
_POLL = 0.01
_TAIL = 8
"""lines of the server's log that an error quotes"""

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


class EmbeddedServer:
    """A nats-server with JetStream, as a child of this process.

    directory: where it keeps its messages, its configuration and its log; a temporary one by default
    port, monitor: fixed ports; 0 takes a free one, None (monitor) none
    max_payload, max_store: limits in bytes; what the server has by default where None
    sync: "interval" or "always", see above
    jetstream: without it the server stores nothing
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
        lines: Sequence[str] = (),
        binary: str | None = None,
        start_timeout: float = 20.0,
    ) -> None:
        if sync not in ("interval", "always"):
            raise ConfigError("choose 'interval' or 'always'", sync=sync)
        self.port, self.monitor = port, monitor
        self.max_payload, self.max_store, self.sync = max_payload, max_store, sync
        self.jetstream, self.lines, self.start_timeout = jetstream, tuple(lines), start_timeout
        self._given = Path(directory) if directory is not None else None
        self._directory: Path | None = None
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{LOOPBACK}:{self.port}"

    @property
    def monitor_url(self) -> str | None:
        """Where the server tells how it is, over HTTP; None if it was not asked to."""
        return None if self.monitor is None else f"http://{LOOPBACK}:{self.monitor}"

    @property
    def directory(self) -> Path:
        """Where everything of this server is."""
        if self._directory is None:
            raise BrokerUnavailable("the embedded server has not been started")
        return self._directory

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

    def log_tail(self, lines: int = _TAIL) -> str:
        """The last lines of the server's log."""
        with suppress(OSError):
            return "\n".join((self.directory / "server.log").read_text(errors="replace").splitlines()[-lines:])
        return ""

    def _starting(self) -> Iterator[None]:
        """Every step is one look at whether it is up."""
        if self.running:
            return
        binary = self._binary or find_binary()
        self._take_directory()
        try:
            self._process = self._launch(binary)
            yield from self._coming_up(time.monotonic() + self.start_timeout)
        except BaseException:
            self.kill()
            self._leave_directory()
            raise

    def _launch(self, binary: str) -> subprocess.Popen[bytes]:
        for stale in self.directory.glob("*.ports"):
            stale.unlink()
        config = self.directory / "server.conf"
        config.touch(mode=0o600)  # further lines may hold passwords
        config.write_text(self._configuration())
        launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), binary, "-c", str(config)]
        assert self._lock is not None
        with (self.directory / "server.out").open("wb") as output:
            return subprocess.Popen(
                launch,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(self._lock,),  # the directory stays taken as long as the server lives
                start_new_session=True,  # a Ctrl-C is for this process, which then stops the server
            )

    def _coming_up(self, deadline: float) -> Iterator[None]:
        assert self._process is not None
        while not self._ports_known():
            if self._process.poll() is not None:
                raise BrokerUnavailable(f"the embedded server ended at once. {self._why()}", directory=str(self._given))
            if time.monotonic() > deadline:
                raise BrokerUnavailable(
                    f"the embedded server was not up in time. {self._why()}", seconds=self.start_timeout
                )
            yield

    def _ports_known(self) -> bool:
        """The server writes its ports into a file once it listens; half a file is not JSON yet."""
        for path in self.directory.glob("*.ports"):
            with suppress(ValueError, OSError):
                ports = json.loads(path.read_text())
                self.port = int(ports["nats"][0].rsplit(":", 1)[1])
                if self.monitor is not None:
                    self.monitor = int(ports["monitoring"][0].rsplit(":", 1)[1])
                return True
        return False

    def _why(self) -> str:
        tail = self.log_tail() or (self.directory / "server.out").read_text(errors="replace")
        hints = {
            "address already in use": "The port is taken: choose another one, or 0 for a free one. ",
            "no space left": "The disk is full: make room, or choose another directory. ",
            "permission denied": "Choose a directory that can be written to. ",
        }
        hint = "".join(text for sign, text in hints.items() if sign in tail.lower())
        return f"{hint}Its log ends with:\n{tail}\n"

    def _configuration(self) -> str:
        here = self.directory
        lines = [
            f"host: {LOOPBACK}",
            f"port: {self.port or -1}",
            f"ports_file_dir: {json.dumps(str(here))}",
            f"log_file: {json.dumps(str(here / 'server.log'))}",
            "logfile_size_limit: 16MB",
        ]
        if self.monitor is not None:
            lines.append(f'http: "{LOOPBACK}:{self.monitor or -1}"')
        if self.max_payload is not None:
            lines.append(f"max_payload: {self.max_payload}")
            if self.max_payload > 1 << 20:
                lines.append(f"max_pending: {max(64 << 20, 2 * self.max_payload)}")
        if self.jetstream:
            store = [f"store_dir: {json.dumps(str(here / 'store'))}"]
            if self.max_store is not None:
                store.append(f"max_file_store: {self.max_store}")
            if self.sync == "always":
                store.append("sync_interval: always")
            lines.append("jetstream {" + ", ".join(store) + "}")
        return "\n".join([*lines, *self.lines]) + "\n"

    def _stopping(self) -> Iterator[None]:
        yield from self._ending()
        self._process = None
        self._leave_directory()

    def _ending(self, patience: float = 10.0) -> Iterator[None]:
        if not self.running:
            return
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + patience
        while self._process.poll() is None:
            if time.monotonic() > deadline:
                self.kill()
                return
            yield

    def _take_directory(self) -> None:
        if self._lock is not None:
            return
        if self._given is not None:
            self._given.mkdir(parents=True, exist_ok=True)
            self._directory = self._given.resolve()
        else:
            self._directory = Path(tempfile.mkdtemp(prefix="thinwire-nats-"))
        lock = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise BrokerRefused(
                "another embedded server works in this directory: stop it, or choose another directory",
                directory=str(self._directory),
            ) from None
        self._lock = lock

    def _leave_directory(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if self._given is None and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None


def find_binary() -> str:
    """Where the nats-server of this environment is."""
    places = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]
    found = shutil.which("nats-server", path=os.pathsep.join(map(str, places))) or shutil.which("nats-server")
    if found is None:
        raise MissingExtra("the embedded broker needs the program nats-server", extra="nats")
    return found
