"""Connecting to a NATS server without an event loop: credentials, TLS, errors without secrets."""

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nats")

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats.blocking import open_source
from thinwire.errors import BadUrl, BrokerRefused, BrokerUnavailable, ConfigError, ThinwireError

SECRET = "s3cr3t/word"
IN_URL = "s3cr3t%2Fword"


def _logs(url: str, **options: Any) -> list[str]:
    with open_source(url, **options) as source:
        assert SECRET not in repr(source)
        return source.logs()


def _refused(url: str, **options: Any) -> ThinwireError:
    with pytest.raises(ThinwireError) as refused:
        _logs(url, **options)
    shown = f"{refused.value!s} {refused.value!r} {refused.value.__cause__!r} {refused.value.facts!r}"
    assert SECRET not in shown
    assert IN_URL not in shown
    return refused.value


def test_connection_refused_fails_at_once_with_the_address() -> None:
    with socket.socket() as taken:  # bound and not listening, so that no other process listens there
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        error = _refused(f"nats://me:{IN_URL}@127.0.0.1:{port}", connect_timeout=60)
    assert isinstance(error, BrokerUnavailable)
    assert f"127.0.0.1:{port}" in str(error)


def test_silent_server_fails_after_the_connect_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = _refused(f"nats://127.0.0.1:{silent.getsockname()[1]}", connect_timeout="0.2")
    assert isinstance(error, BrokerUnavailable)


@pytest.mark.parametrize("response", [b"HTTP/1.1 400 Bad Request\r\n", b"INFO nothing\r\n", b"INFO []\r\n"])
def test_server_of_another_protocol(response: bytes) -> None:
    with _FakeServer(response) as fake:
        error = _refused(f"nats://127.0.0.1:{fake.port}", connect_timeout=2)
    assert isinstance(error, BrokerUnavailable)
    assert "not a NATS server" in str(error)


def test_first_reachable_server_is_used() -> None:
    with EmbeddedServer() as server:
        assert _logs(f"nats://127.0.0.1:1,{server.url}") == []


def test_token() -> None:
    with EmbeddedServer(lines=[f'authorization {{ token: "{SECRET}" }}']) as server:
        assert _logs(server.url, token=SECRET) == []
        assert _logs(server.url.replace("//", f"//{IN_URL}@")) == []
        for url, options in ((server.url, {}), (server.url, {"token": "wrong"})):
            error = _refused(url, **options)
            assert isinstance(error, BrokerRefused)
            assert "credentials" in str(error)


def test_user_and_permissions() -> None:
    publish = '["$JS.API.INFO", "$JS.API.STREAM.NAMES"]'
    user = f'{{user: ada, password: "{SECRET}", permissions: {{publish: {publish}, subscribe: ["_INBOX.>"]}}}}'
    with EmbeddedServer(lines=[f"authorization {{ users: [{user}] }}"]) as server:
        assert _logs(server.url.replace("//", f"//ada:{IN_URL}@")) == []
        assert isinstance(_refused(server.url, user="ada", password="wrong"), BrokerRefused)
        with open_source(server.url, user="ada", password=SECRET) as source:
            for _ in range(2):
                with pytest.raises(BrokerRefused, match="permission") as error:
                    source.span("tw_log_rooms")
                assert error.value.subject == "$js.api.stream.info.tw_log_rooms"
            assert source.logs() == []


def test_nkey_file(tmp_path: Path) -> None:
    nkeys = pytest.importorskip("nkeys")
    seed = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)
    public = nkeys.from_seed(bytearray(seed)).public_key.decode()
    (tmp_path / "ada.nk").write_bytes(seed)
    (tmp_path / "bad.nk").write_text("no seed")
    with EmbeddedServer(lines=[f"authorization {{ users: [{{nkey: {public}}}] }}"]) as server:
        assert _logs(server.url, nkey=str(tmp_path / "ada.nk")) == []
        assert isinstance(_refused(server.url), BrokerRefused)
        assert isinstance(_refused(server.url, nkey=str(tmp_path / "bad.nk")), ConfigError)


def test_server_without_jetstream_is_refused_with_advice() -> None:
    with EmbeddedServer(lines=["jetstream: disabled"]) as server:
        error = _refused(server.url)
    assert isinstance(error, BrokerRefused)
    assert "nats-server -js" in str(error)


def test_tls(certificate: Path) -> None:
    pem = str(certificate / "cert.pem")
    with EmbeddedServer(lines=[f'tls {{ cert_file: "{pem}", key_file: "{certificate}/key.pem" }}']) as server:
        encrypted = server.url.replace("nats:", "tls:")
        assert _logs(server.url, ca=pem, hostname="broker") == []
        assert _logs(encrypted, ca=pem, hostname="broker") == []
        for error in (_refused(encrypted), _refused(server.url), _refused(server.url, ca=pem)):
            assert isinstance(error, BrokerRefused)
            assert "certificate" in str(error)


def test_client_certificate(certificate: Path) -> None:
    pem, key = str(certificate / "cert.pem"), str(certificate / "key.pem")
    files = f'cert_file: "{pem}", key_file: "{key}", ca_file: "{pem}"'
    with EmbeddedServer(lines=[f"tls {{ {files}, verify: true }}"]) as server:
        assert _logs(server.url, ca=pem, hostname="broker", certificate=pem, key=key) == []
        error = _refused(server.url, ca=pem, hostname="broker", connect_timeout=2)
        assert isinstance(error, (BrokerRefused, BrokerUnavailable))


def test_credentials_are_not_sent_without_requested_tls() -> None:
    info = b'INFO {"server_id":"x","version":"2.15.0","max_payload":1000,"headers":true}\r\n'
    with _FakeServer(info) as fake:
        error = _refused(f"tls://me:{IN_URL}@127.0.0.1:{fake.port}", connect_timeout=2)
        assert "offers no TLS" in str(error)
    assert fake.received == b""


def test_options_and_addresses_are_checked() -> None:
    with pytest.raises(ConfigError, match="pasword"):
        open_source("nats://localhost", pasword=SECRET)
    with pytest.raises(ConfigError, match="timeout"):
        open_source("nats://localhost", timeout="soon")
    with pytest.raises(ConfigError, match="go together"):
        open_source("nats://localhost", user="ada")
    for url in ("localhost:4222", "http://localhost", "nats://"):
        with pytest.raises(BadUrl):
            open_source(url)


class _FakeServer:
    """A server that sends fixed bytes and records what it receives."""

    def __init__(self, response: bytes) -> None:
        self._response, self.received = response, b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        with client:
            client.sendall(self._response)
            self.received = client.recv(1000)

    def __enter__(self) -> "_FakeServer":
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._thread.join()
        self._listener.close()
