"""Is the broker ready? What `thinwire doctor URL` looks at there."""

from __future__ import annotations

import secrets
import time
from contextlib import AsyncExitStack
from typing import Any

from thinwire.brokers.broker_url import read_url
from thinwire.brokers.protocol_broker import Broker
from thinwire.cli.connection_options_live import Access
from thinwire.cli.doctor_machine_checks import NATS, Check, version_in
from thinwire.client.local_services_opening import open_broker
from thinwire.errors import BrokerRefused, BrokerUnavailable, NobodyAnswers, ThinwireError, TransportError
from thinwire.topics.registry_client import ping

MIN_PAYLOAD = 128_000
WARN_SKEW, FAIL_SKEW = 1.0, 5.0
"""seconds between this clock and the broker's"""


async def broker(access: Access) -> list[Check]:
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


def accepted(access: Access) -> list[Check]:
    """A connection is open, so all of this is well."""
    return [
        Check("broker", "ok", f"{access.shown} answers"),
        Check("credentials", "ok", "accepted"),
        Check("JetStream", "ok", "on"),
    ]


def refused(access: Access, problem: ThinwireError) -> list[Check]:
    """How far a connection came that failed."""
    answers, known = accepted(access)[:2]
    if isinstance(problem, BrokerRefused):
        if "JetStream" in problem.detail:
            return [answers, known, Check("JetStream", "fail", problem.detail, "start it as `nats-server -js`")]
        remedy = "give the token ($THINWIRE_TOKEN, --token-file), --creds, or user and password in the URL"
        if "TLS" in problem.detail or "certificate" in problem.detail:
            remedy = "check the URL's scheme (tls:// or nats://), --ca, --cert and --key"
        return [answers, Check("credentials", "fail", problem.detail, remedy)]
    remedy = "check the address and the firewall; start a broker with `thinwire up`"
    if not isinstance(problem, BrokerUnavailable):
        remedy = problem.advice
    return [Check("broker", "fail", f"{access.shown}: {problem.detail or problem.summary}", remedy)]


def version(described: dict[str, Any]) -> Check:
    """Is the server new enough?"""
    found = str(described["version"])
    if version_in(found)[:2] >= NATS:
        return Check("broker version", "ok", found)
    return Check("broker version", "fail", found, "update nats-server to 2.11 or newer")


def payload(described: dict[str, Any]) -> Check:
    """Does a message hold what it should?"""
    size = int(described["max_payload"])
    if size >= MIN_PAYLOAD:
        return Check("largest message", "ok", f"{size:,} bytes")
    return Check("largest message", "warn", f"{size:,} bytes", f"raise max_payload to {MIN_PAYLOAD:,} or more")


async def registry(connection: Broker, access: Access) -> Check:
    """Does a registry run there?"""
    try:
        told = await ping(connection)
    except NobodyAnswers:
        remedy = f"events flow without it, tolerances do not: `thinwire up --to {access.shown}`"
        return Check("registry", "warn", "none answers", remedy)
    except ThinwireError as problem:
        return Check("registry", "fail", str(problem), "look at its log, and start it again")
    found = ", ".join(f"{told.get(what, 0)} {what}" for what in ("topics", "subscriptions", "publishers", "problems"))
    if told.get("problems"):
        return Check("registry", "warn", found, "`thinwire registry list` shows the problems")
    return Check("registry", "ok", found)


async def clock(connection: Broker) -> Check:
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
        return Check("clock", "warn", str(problem), "it could not be compared")
    return judged(stored.time - middle if stored is not None else 0.0)


def judged(ahead: float) -> Check:
    """
    >>> judged(0.2).verdict, judged(-2.0).verdict, judged(7.0).verdict
    ('ok', 'warn', 'fail')
    """
    found = f"{abs(ahead):.2f} s {'behind' if ahead > 0 else 'ahead of'} the broker's"
    if abs(ahead) <= WARN_SKEW:
        return Check("clock", "ok", found)
    return Check("clock", "warn" if abs(ahead) <= FAIL_SKEW else "fail", found, "set the clocks (NTP), here and there")


async def _described(connection: Broker) -> dict[str, Any]:
    describe = getattr(connection, "describe", None)
    return dict(await describe()) if describe is not None else {}
