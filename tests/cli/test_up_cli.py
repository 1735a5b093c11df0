"""`thinwire up`: starts broker and services, and leaves no process behind."""

import signal
import socket
from pathlib import Path

import pytest
from verb_processes import TIMEOUT, children, have_ended, running

from thinwire.cli import up as up_command
from thinwire.cli.main import main


@pytest.fixture
def up(tmp_path):
    with running("up", "--port", "0", "--dir", str(tmp_path / "data"), "--json") as (process, line):
        yield process, line


def test_ctrl_c_stops_it_and_leaves_no_process(up, tmp_path, capsys):
    process, line = up
    assert line["pid"] == process.pid
    assert Path(line["dir"]) == tmp_path / "data"
    assert main(["up", "--port", "0", "--dir", line["dir"]]) == 2
    assert "another embedded server uses this directory" in capsys.readouterr().err
    started = children(process)
    assert any("nats-server" in child.name() for child in started)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, output
    assert "Traceback" not in output[1]
    assert have_ended(started)
    assert (tmp_path / "data").is_dir()


def test_the_broker_ends_with_a_killed_process(up):
    process, _ = up
    started = children(process)
    assert started
    process.kill()
    process.wait(TIMEOUT)
    assert have_ended(started)


def test_the_exit_of_the_broker_is_reported(up):
    process, _ = up
    [broker] = children(process)
    broker.kill()
    output = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 2
    assert "the broker has exited" in output[1]


def test_services_run_beside_a_broker_together_or_alone(up):
    _, line = up
    for only, sentence in (
        ((), "registry, translator, dictionaries and watches run"),
        (("--only", "translator"), "the translator runs"),
        (("--only", "registry"), "the registry runs"),
        (("--only", "dictionaries"), "the dictionary trainer runs"),
        (("--only", "watches"), "the watcher runs"),
    ):
        with running("up", "--to", line["url"], *only, "--json") as (process, output):
            assert output["url"] == line["url"]
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=TIMEOUT)[1]
            assert process.returncode == 0, errors
            assert sentence in errors


def test_an_unusable_directory_is_reported(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["up", "--port", "0", "--dir", str(tmp_path / "file" / "data")]) == 2
    assert "directory" in capsys.readouterr().err


def test_a_port_in_use_is_reported_with_a_remedy(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["up", "--port", str(taken.getsockname()[1])]) == 2
    complaint = capsys.readouterr().err
    assert "The port is taken" in complaint
    assert "Traceback" not in complaint


def test_a_connection_error_of_a_service_is_not_reported_as_a_full_disk(tmp_path, monkeypatch, capsys):
    async def lose_connection(tasks, server):
        raise ConnectionResetError("connection lost")

    monkeypatch.setattr(up_command, "wait_for_end", lose_connection)
    assert main(["up", "--port", "0", "--only", "registry", "--dir", str(tmp_path)]) == 2
    complaint = capsys.readouterr().err
    assert "connection lost" in complaint
    assert "space" not in complaint


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("--to", "memory://here"), "give the URL of a running broker"),
        (("--to", "nats://127.0.0.1:1"), "connection refused"),
        (("--to", "nats://127.0.0.1:1", "--dir", "here"), "omit --dir"),
        (("--to", "nats://127.0.0.1:1", "--port", "4222"), "omit --port"),
        (("--to", "nats://127.0.0.1:1", "--leaves", "0"), "omit --leaves"),
        (("--port", "70000"), "--port"),
        (("--only", "dashboard"), "--only"),
    ],
)
def test_invalid_arguments_are_refused(args, complaint, capsys):
    assert main(["up", *args]) == 2
    assert complaint in capsys.readouterr().err
