"""`thinwire pub`: events from JSON lines, and a message for every rejected line."""

import json
import signal
import subprocess

import pytest
from verb_processes import TIMEOUT, start, wait_until

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.cli.main import main
from thinwire.schema import Property, Schema, to_turtle
from thinwire.schema.turtle import from_turtle


def rooms(topic):
    return Schema(topic, [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])


def lines(count, start=0):
    return [json.dumps({"room": f"R{i % 2}", "t": 20 + i / 10}) for i in range(start, start + count)]


def run(capsys, *args, code=0):
    assert main([*args]) == code, capsys.readouterr()
    return capsys.readouterr()


@pytest.fixture
def feed(tmp_path):
    """A file with these lines."""

    def write(*given):
        path = tmp_path / "events.jsonl"
        path.write_text("\n".join(given) + "\n")
        return str(path)

    return write


def test_bad_lines_are_reported_and_skipped(url, feed, tmp_path, capsys):
    schema = tmp_path / "rooms.ttl"
    schema.write_text(to_turtle(rooms("pub.bad")))
    good = lines(6)
    path = feed(
        *good[:2], "{half", "[1, 2]", "", '{"room": "R1", "t": "warm"}', '{"room": "R1", "t": 1, "x": 2}', *good[2:]
    )
    args = ("pub", "pub.bad", path, "--to", url, "--schema", str(schema), "--retain", "--name", "p1")
    output = run(capsys, *args, "--json", code=1)
    summary = json.loads(output.out)
    assert (summary["events"], summary["rejected"], summary["publisher"]) == (6, 4, "p1")
    assert summary["raw_bytes"] == sum(len(line) - line.count(" ") for line in good)
    reported = [line for line in output.err.splitlines() if line.startswith("line ")]
    assert [line.split(":")[0] for line in reported] == ["line 3", "line 4", "line 6", "line 7"]
    assert "not JSON" in reported[0]
    assert "unknown property" in reported[3]
    printed = run(capsys, "sub", "pub.bad", "--to", url, "--start", "earliest", "-n", "6").out.splitlines()
    assert [json.loads(line) for line in printed] == [json.loads(line) for line in good]


def test_a_schema_is_inferred_once(url, feed, capsys):
    args = ("--to", url, "--infer", "--dimensions", "room", "--retain")
    assert "8" in run(capsys, "pub", "pub.found", feed(*lines(8)), *args).out
    found = from_turtle(run(capsys, "registry", "get", "pub.found", "--turtle", "--to", url).out)
    assert [p.name for p in found.dimensions] == ["room"]
    again = run(capsys, "pub", "pub.found", feed(*lines(4)), *args)
    assert "is registered: its schema is used" in again.err
    topic = json.loads(run(capsys, "registry", "get", "pub.found", "--to", url).out)
    assert topic["settings"]["retain"]
    assert len(topic["versions"]) == 1


def test_ctrl_c_stores_what_was_read(url, capsys):
    args = ("pub", "pub.cut", "-", "--to", url, "--infer", "--dimensions", "room", "--retain", "--json")
    process = start(*args, stdin=subprocess.PIPE)
    process.stdin.write("\n".join(lines(100)) + "\n")
    process.stdin.flush()
    beginning = _from_start(url, "pub.cut")
    capsys.readouterr()
    printed = run(capsys, "sub", "pub.cut", "--to", url, *beginning, "-n", "100")
    process.send_signal(signal.SIGINT)
    process.wait(TIMEOUT)
    out, err = process.communicate()
    assert process.returncode == 130, err
    assert json.loads(out)["events"] == 100
    assert len(printed.out.splitlines()) == 100


@pytest.mark.slow
def test_a_killed_broker_does_not_block_the_exit(capsys):
    with EmbeddedServer() as server:
        args = ("pub", "pub.left", "-", "--to", server.url, "--infer", "--sample", "1", "--retain")
        process = start(*args, stdin=subprocess.PIPE)
        process.stdin.write(lines(1)[0] + "\n")
        process.stdin.flush()
        assert main(["sub", "pub.left", "--to", server.url, *_from_start(server.url, "pub.left"), "-n", "1"]) == 0
    process.stdin.write(lines(1)[0] + "\n")
    process.stdin.flush()
    process.terminate()
    process.wait(TIMEOUT / 2)
    _, complaint = process.communicate()
    assert process.returncode == 130, complaint
    assert "the broker does not respond" in complaint
    assert "Traceback" not in complaint


def _from_start(url, topic):
    """Return the options to read from the start, when the topic is registered."""
    wait_until(lambda: main(["registry", "get", topic, "--to", url]) == 0)
    return "--start", "earliest"


def test_without_subscribers_nothing_is_stored_and_this_is_reported(url, feed, capsys):
    args = ("pub", "pub.alone", "--to", url, "--infer", "--dimensions", "room")
    run(capsys, *args[:2], feed(*lines(2)), *args[2:])
    again = run(capsys, *args[:2], feed(*lines(2)), *args[2:], "--tolerance", "t=0.5")
    assert "has no subscriber" in again.out
    assert "--tolerance is ignored" in again.err


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("pub.no", "/no/such/file"), "No such file"),
        (("pub.no", "{file}"), "unknown topic"),
        (("pub.no", "{file}", "--tolerance", "t"), "write NAME=VALUE"),
        (("pub.no", "{file}", "--tolerance", "t=far"), "a tolerance is a number"),
        (("pub.no", "{file}", "--infer", "--schema", "x.ttl"), "not both"),
        (("pub no", "{file}", "--infer"), "a topic is words"),
        (("pub.no", "{file}", "--to", "nats://127.0.0.1:1"), "connection refused"),
        (("pub.no", "{file}", "--to", "http://ada:secret@here"), "bad URL"),
    ],
)
def test_invalid_arguments_are_refused(url, feed, args, complaint, capsys):
    path = feed(*lines(1))
    given = [arg.replace("{file}", path) for arg in args]
    output = run(capsys, "pub", *given, *(() if "--to" in args else ("--to", url)), code=2)
    assert complaint in output.err
    assert "secret" not in output.err
