"""Servers of a cluster: order of attempts, discovery, failover."""

import asyncio
from pathlib import Path

import pytest
from fault_proxy import FaultProxy

pytest.importorskip("nats")

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats.blocking import open_source
from thinwire.brokers.nats.broker import connect
from thinwire.brokers.nats.options import NatsOptions, Tls
from thinwire.brokers.nats.protocol_core import ServerError, parse_info
from thinwire.brokers.nats.server_pool import MAX_SERVERS, RESET_RETRIES, Server, ServerPool
from thinwire.brokers.protocol import run_inline
from thinwire.errors import BrokerRefused, BrokerUnavailable

LOG = "tw_log_rooms"


def _attempts(errors: dict[str, Exception]) -> tuple[list[str], str | Exception]:
    """Hosts in the order of attempts, and the result."""
    hosts: list[str] = []

    async def attempt(server: Server) -> str:
        hosts.append(server.host)
        if server.host in errors:
            raise errors[server.host]
        return server.host

    pool = ServerPool(["nats://a:1", "nats://b:1", "nats://c:1"])
    try:
        return hosts, run_inline(pool.connect(attempt, "servers"))
    except (BrokerRefused, BrokerUnavailable) as error:
        return hosts, error


def test_each_server_is_tried_once() -> None:
    assert _attempts({}) == (["a"], "a")
    assert _attempts({"a": ConnectionRefusedError(), "b": TimeoutError()}) == (["a", "b", "c"], "c")
    hosts, error = _attempts(dict.fromkeys("abc", ConnectionRefusedError()))
    assert hosts == ["a", "b", "c"]
    assert isinstance(error, BrokerUnavailable)


def test_a_reset_is_tried_again_and_a_refusal_ends_the_search() -> None:
    hosts, _ = _attempts({"a": ConnectionResetError()})
    assert hosts == ["a"] * (1 + RESET_RETRIES) + ["b"]
    hosts, error = _attempts({"a": ServerError("authorization violation")})
    assert hosts == ["a"]
    assert isinstance(error, BrokerRefused)


def test_discovered_servers_are_added_once_and_keep_the_certificate_name() -> None:
    pool = ServerPool(["tls://broker:4222"])
    pool.discover(["10.0.0.7:4222", "broker:4222", "10.0.0.7:4222", "[::1]:4222", "bad:port", ""], pool.current)
    assert len(pool) == 3
    assert pool.advance() == Server("10.0.0.7", 4222, "broker")
    pool.discover([f"host{number}:1" for number in range(2 * MAX_SERVERS)], pool.current)
    assert len(pool) == MAX_SERVERS
    addresses = ServerPool(["tls://10.0.0.1:4222"])
    addresses.discover(["10.0.0.2:4222"], addresses.current)
    assert addresses.advance().tls_name == "10.0.0.2"


def test_info_names_the_servers_of_the_cluster() -> None:
    assert parse_info(b'INFO {"connect_urls":["a:1","b:2"]}').connect_urls == ("a:1", "b:2")


def test_the_client_fails_over_to_the_next_server() -> None:
    async def scenario(first: EmbeddedServer, second: EmbeddedServer) -> None:
        servers = f"{first.url},{second.url}"
        for server in (first, second):
            async with await connect(server.url) as broker:
                await broker.ensure_log(LOG, ["tw.log.rooms.*"])
        async with asyncio.timeout(20), await connect(servers) as broker:
            for server in (first, second, first):
                server.kill()
                assert await broker.logs() == [LOG]
                await server.restart()
        with open_source(servers) as source:
            first.kill()
            assert source.logs() == [LOG]
            second.kill()
            await first.restart()
            assert source.logs() == [LOG]

    with EmbeddedServer() as first, EmbeddedServer() as second:
        asyncio.run(scenario(first, second))


def test_a_connection_with_tls_and_credentials_is_restored(certificate: Path) -> None:
    lines = [
        f'tls {{ cert_file: "{certificate}/cert.pem", key_file: "{certificate}/key.pem" }}',
        "authorization { user: ada, password: enchantress }",
    ]
    options = NatsOptions(
        tls=Tls(ca=certificate / "cert.pem", hostname="broker"), user="ada", password="enchantress", timeout=20
    )

    async def scenario(server: EmbeddedServer) -> None:
        async with (
            asyncio.timeout(40),
            FaultProxy("127.0.0.1", server.port) as proxy,
            await connect(f"tls://127.0.0.1:{proxy.port}", options) as broker,
        ):
            await broker.ensure_log(LOG, ["tw.log.rooms.*"])
            reader = await broker.read(LOG, first=1)
            for number in range(1, 4):
                proxy.cut()
                proxy.restore()
                assert await broker.append(LOG, "tw.log.rooms.a", b"x" * 100_000) == number
                message = await reader.next(20)
                assert message is not None
                assert (message.offset, len(message.payload)) == (number, 100_000)
            assert broker._connection.socket._transport.get_extra_info("ssl_object") is not None
            assert proxy.connections > 1
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with EmbeddedServer(lines=lines) as server:
        asyncio.run(scenario(server))
