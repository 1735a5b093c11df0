"""A broker from outside the package: one factory and one registration, then `thinwire.connect` uses it."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest
from broker_checks import CHECKS, run
from broker_checks.check_site import LocalSite

import thinwire as tw
from thinwire.brokers import broker_url
from thinwire.brokers.broker_url import Address, OpenedBroker, open_broker, read_url, register_broker
from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.brokers.protocol import ANY, Broker, Bucket
from thinwire.errors import BadUrl, ConfigError

ROOMS = tw.Schema("rooms", [tw.Property("room", "string", "dimension"), tw.Property("t", "number", step="0.1")])
SERVERS: dict[str, LocalServer] = {}


class CountingBroker(LocalBroker):
    """A third-party broker: the storage of the memory broker under other names, and a count of appended messages."""

    appended = 0

    @property
    def url(self) -> str:
        return f"counting://{self.server.name}"

    async def append(
        self,
        log: str,
        subject: str,
        payload: bytes,
        *,
        expected_last: int = ANY,
        last_pattern: str = "",
        timeout: float = 60.0,
    ) -> int:
        CountingBroker.appended += 1
        return await super().append(
            log, subject, payload, expected_last=expected_last, last_pattern=last_pattern, timeout=timeout
        )

    async def bucket(self, name: str) -> Bucket:
        return await super().bucket(f"counting-{name}")


async def open_counting(address: Address, options: Mapping[str, Any], stack: AsyncExitStack) -> OpenedBroker:
    server = SERVERS.setdefault(address.rest, LocalServer(address.rest))
    brokers = [CountingBroker(server), CountingBroker(server)]
    for broker in brokers:
        stack.push_async_callback(broker.close)
    return OpenedBroker(*brokers)


@pytest.fixture(autouse=True)
def counting_scheme(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(broker_url, "_FACTORIES", dict(broker_url._FACTORIES))
    register_broker("counting", open_counting)
    yield
    SERVERS.clear()


def test_publish_and_subscribe_through_connect() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(30), tw.connect("counting://here") as bus:
            await bus.register(ROOMS)
            async with bus.subscribe("rooms", tolerance={"t": 0.5}) as events, bus.publisher("rooms") as publisher:
                await publisher.publish({"room": "11.1", "t": 20.5})
                event = await anext(events)
                assert (event["room"], abs(event["t"] - 20.5) <= 0.5) == ("11.1", True)
            assert bus.broker.url == "counting://here"

    CountingBroker.appended = 0
    asyncio.run(scenario())
    assert CountingBroker.appended > 0
    assert SERVERS["here"].buckets
    assert all(name.startswith("counting-") for name in SERVERS["here"].buckets)


def test_open_broker_by_url() -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            opened = await open_broker(read_url("counting://there"), {}, stack)
            broker: Broker = opened.broker
            await broker.ensure_log("log", ["a"])
            assert await broker.append("log", "a", b"1") == 1
            assert opened.service_broker is not None
            assert (await opened.service_broker.span("log")).messages == 1
        assert not broker.connected

    asyncio.run(scenario())


class CountingSite(LocalSite):
    """Runs the checks of every broker for this one."""

    async def connect(self) -> CountingBroker:
        return CountingBroker(self.server, timeout=10)


@pytest.mark.parametrize("check", CHECKS[:4], ids=lambda check: check.__name__)
def test_checks_of_every_broker_apply(check: Any) -> None:
    asyncio.run(run(check, CountingSite()))


def test_registration_is_checked() -> None:
    register_broker("counting", open_counting)
    for scheme in ("nats", "memory"):
        with pytest.raises(ConfigError, match=scheme):
            register_broker(scheme, open_counting)
    for scheme in ("", "Upper", "a b", "x" * 40):
        with pytest.raises(ConfigError, match="scheme"):
            register_broker(scheme, open_counting)
    with pytest.raises(BadUrl, match="unknown scheme"):
        read_url("other://here")
