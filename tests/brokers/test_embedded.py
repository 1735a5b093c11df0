"""The embedded server: locked directory, clean stop, end with its parent."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from thinwire.brokers.embedded import EmbeddedServer, find_binary
from thinwire.errors import BrokerRefused, BrokerUnavailable, ConfigError, MissingExtra

pytest.importorskip("nats")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_start_and_stop_leave_nothing_behind() -> None:
    with EmbeddedServer() as server:
        directory = server.directory
        assert _listens(server.port)
    assert not _listens(server.port)
    assert not directory.exists()
    assert not server.running


def test_killed_server_restarts_with_port_and_directory() -> None:
    async def scenario() -> None:
        async with EmbeddedServer() as server:
            port, directory, pid = server.port, server.directory, server.pid
            server.kill()
            assert not server.running
            assert not _listens(port)
            await server.restart()
            assert (server.port, server.directory) == (port, directory)
            assert server.pid != pid
            assert _listens(port)
            await server.restart()  # also while it runs
            assert _listens(port)

    asyncio.run(scenario())


def test_given_directory_is_retained_and_locked(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "store") as server:
        with pytest.raises(BrokerRefused, match="another embedded server") as refused, EmbeddedServer(server.directory):
            pass
        assert str(server.directory) in str(refused.value)
        assert server.running
    assert (tmp_path / "store" / "server.log").exists()
    with EmbeddedServer(tmp_path / "store"):
        pass


def test_unusable_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be used") as error:
        EmbeddedServer(tmp_path / "file" / "store").start_now()
    assert error.value.directory == str(tmp_path / "file" / "store")


def test_port_in_use_is_reported() -> None:
    with EmbeddedServer() as server:
        second = EmbeddedServer(port=server.port)
        with pytest.raises(BrokerUnavailable, match="The port is taken"):
            second.start_now()
        assert not second.running


def test_invalid_configuration_shows_the_server_log() -> None:
    with pytest.raises(BrokerUnavailable, match="nonsense"), EmbeddedServer(lines=["nonsense here"]):
        pass


def test_settings_reach_the_server() -> None:
    server = EmbeddedServer(lines=["ping_interval: 7"])
    with server:
        text = (server.directory / "server.conf").read_text()
        assert (server.directory / "server.conf").stat().st_mode & 0o077 == 0
    for line in ("host: 127.0.0.1", "ping_interval: 7"):
        assert line in text


def test_missing_program_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert Path(find_binary()).exists()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtra) as missing:
        find_binary()
    assert missing.value.extra == "nats"


_PARENT = """
import time
from thinwire.brokers.embedded import EmbeddedServer
server = EmbeddedServer(DIRECTORY).start_now()
print(server.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux notifies a child when its parent ends")
def test_server_ends_with_a_killed_parent(tmp_path: Path) -> None:
    script = _PARENT.replace("DIRECTORY", repr(str(tmp_path / "store")))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert _alive(pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    deadline = time.monotonic() + 20
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _alive(pid)
    with EmbeddedServer(tmp_path / "store"):  # and the directory is free again
        pass
