"""Connecting to a NATS server: credentials, TLS, errors without secrets."""

import asyncio
import logging
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("nats")

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats.broker import connect
from thinwire.brokers.nats.options import NatsOptions, Tls, read_servers
from thinwire.errors import BadUrl, BrokerRefused, BrokerUnavailable, ConfigError, ThinwireError

SECRET = "s3cr3t/word"
IN_URL = "s3cr3t%2Fword"


async def _is_connected(url: str | Sequence[str], options: NatsOptions | None = None) -> bool:
    async with asyncio.timeout(20), await connect(url, options) as broker:
        assert SECRET not in broker.url
        return broker.connected and await broker.logs() == []


def _refused(url: str | Sequence[str], options: NatsOptions | None = None) -> ThinwireError:
    async def attempt() -> None:
        await _is_connected(url, options)

    with pytest.raises(ThinwireError) as refused:
        asyncio.run(attempt())
    shown = f"{refused.value!s} {refused.value!r} {refused.value.__cause__!r} {refused.value.facts!r}"
    assert SECRET not in shown
    assert IN_URL not in shown
    return refused.value


def test_connection_refused_fails_at_once_with_the_address() -> None:
    with socket.socket() as taken:  # bound and not listening, so that no other process listens there
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        error = _refused(f"nats://me:{IN_URL}@127.0.0.1:{port}", NatsOptions(connect_timeout=60))
    assert isinstance(error, BrokerUnavailable)
    assert f"127.0.0.1:{port}" in str(error)


def test_silent_server_fails_after_the_connect_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = _refused(f"nats://127.0.0.1:{silent.getsockname()[1]}", NatsOptions(connect_timeout=0.2))
    assert isinstance(error, BrokerUnavailable)


def test_first_reachable_server_is_used() -> None:
    with EmbeddedServer() as server:
        assert asyncio.run(_is_connected(["nats://127.0.0.1:1", server.url]))
        assert asyncio.run(_is_connected(f"nats://127.0.0.1:1,{server.url}"))


@pytest.mark.parametrize(
    "url",
    ["localhost:4222", "http://localhost", "nats://", "nats://host:port", "nats://host:99999", "nats://host/path", ""],
)
def test_invalid_addresses(url: str) -> None:
    assert isinstance(_refused(url), BadUrl)


def test_invalid_address_does_not_show_its_password() -> None:
    assert isinstance(_refused(f"nats://me:{SECRET}@host:port"), BadUrl)
    assert isinstance(_refused([f"mats://me:{IN_URL}@host:1"]), BadUrl)
    assert isinstance(_refused([]), BadUrl)


def test_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with EmbeddedServer(lines=[f'authorization {{ token: "{SECRET}" }}']) as server:
        assert asyncio.run(_is_connected(server.url, NatsOptions(token=SECRET)))
        assert asyncio.run(_is_connected(server.url.replace("//", f"//{IN_URL}@")))
        for url, options in (
            (server.url, None),
            (server.url, NatsOptions(token="wrong")),
            (server.url.replace("//", "//wrong@"), None),
        ):
            error = _refused(url, options)
            assert isinstance(error, BrokerRefused)
            assert "credentials" in str(error)
    assert SECRET not in caplog.text
    assert IN_URL not in caplog.text


def test_user_and_permissions() -> None:
    publish = '["tw.open", "$JS.API.>", "_INBOX.>"]'
    user = f'{{user: ada, password: "{SECRET}", permissions: {{publish: {publish}, subscribe: ["_INBOX.>"]}}}}'

    async def scenario(url: str) -> None:
        async with asyncio.timeout(20), await connect(url, NatsOptions(user="ada", password=SECRET)) as broker:
            with pytest.raises(BrokerRefused, match="permission") as error:
                await broker.request("tw.closed", b"", timeout=10)
            assert error.value.subject == "tw.closed"
            assert broker.connected

    with EmbeddedServer(lines=[f"authorization {{ users: [{user}] }}"]) as server:
        asyncio.run(scenario(server.url))
        assert asyncio.run(_is_connected(server.url.replace("//", f"//ada:{IN_URL}@")))
        assert isinstance(_refused(server.url, NatsOptions(user="ada", password="wrong")), BrokerRefused)


def test_nkey_file(tmp_path: Path) -> None:
    nkeys = pytest.importorskip("nkeys")
    seed = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)
    public = nkeys.from_seed(bytearray(seed)).public_key.decode()
    (tmp_path / "ada.nk").write_bytes(seed)
    with EmbeddedServer(lines=[f"authorization {{ users: [{{nkey: {public}}}] }}"]) as server:
        assert asyncio.run(_is_connected(server.url, NatsOptions(nkey=tmp_path / "ada.nk")))
        assert isinstance(_refused(server.url), BrokerRefused)
    (tmp_path / "bad.nk").write_text("no seed")
    with EmbeddedServer() as server:
        assert isinstance(_refused(server.url, NatsOptions(nkey=tmp_path / "bad.nk")), ConfigError)


def test_server_without_jetstream_is_refused_with_advice() -> None:
    with EmbeddedServer(lines=["jetstream: disabled"]) as server:
        error = _refused(server.url)
    assert isinstance(error, BrokerRefused)
    assert "nats-server -js" in str(error)


def test_tls(certificate: Path) -> None:
    files = f'cert_file: "{certificate}/cert.pem", key_file: "{certificate}/key.pem"'
    with EmbeddedServer(lines=[f"tls {{ {files} }}"]) as server:
        trusted = Tls(ca=certificate / "cert.pem", hostname="broker")
        assert asyncio.run(_is_connected(server.url, NatsOptions(tls=trusted)))
        assert asyncio.run(_is_connected(server.url.replace("nats:", "tls:"), NatsOptions(tls=trusted)))
        stranger = _refused(server.url.replace("nats:", "tls:"))
        assert isinstance(stranger, BrokerRefused)
        assert "certificate" in str(stranger)
        misnamed = _refused(server.url, NatsOptions(tls=Tls(ca=certificate / "cert.pem")))
        assert "certificate" in str(misnamed)


def test_client_certificate(certificate: Path) -> None:
    files = f'cert_file: "{certificate}/cert.pem", key_file: "{certificate}/key.pem", ca_file: "{certificate}/cert.pem"'
    with EmbeddedServer(lines=[f"tls {{ {files}, verify: true }}"]) as server:
        pem = certificate / "cert.pem"
        shown = Tls(ca=pem, hostname="broker", certificate=pem, key=certificate / "key.pem")
        assert asyncio.run(_is_connected(server.url, NatsOptions(tls=shown)))
        error = _refused(server.url, NatsOptions(tls=Tls(ca=pem, hostname="broker"), connect_timeout=2))
        assert isinstance(error, (BrokerRefused, BrokerUnavailable))


def test_credentials_are_not_sent_without_requested_tls() -> None:
    received = b""

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        writer.write(b'INFO {"server_id":"x","version":"2.15.0","max_payload":1000,"headers":true}\r\n')
        received += await reader.read(1000)
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(plain, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(BrokerRefused, match="offers no TLS"):
                await connect(f"tls://me:{IN_URL}@127.0.0.1:{port}", NatsOptions(connect_timeout=2))
            await asyncio.sleep(0.05)

    asyncio.run(scenario())
    assert received == b""


def test_options_are_checked_and_show_no_secrets(tmp_path: Path) -> None:
    shown = repr(NatsOptions(name="p", token=SECRET, user="ada", password=SECRET))
    assert shown == "NatsOptions(name='p', token='***', user='ada', password='***')"
    (tmp_path / "empty").touch()
    for wrong in (
        {"timeout": 0.0},
        {"user": "ada"},
        {"credentials": tmp_path / "none"},
        {"credentials": tmp_path / "empty"},
        {"nkey": tmp_path / "none"},
    ):
        with pytest.raises(ConfigError):
            NatsOptions(**wrong)
    with pytest.raises(ConfigError):
        Tls(ca=tmp_path / "none").context()
    servers, options = read_servers("tls://tok@[::1]:5222", NatsOptions())
    assert servers == ["tls://[::1]:5222"]
    assert options.token == "tok"
    assert options.tls == Tls()
