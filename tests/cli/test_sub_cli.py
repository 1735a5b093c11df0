"""`thinwire sub`: prints the published events within their tolerance, each once."""

import json
import signal
import subprocess

import pytest
from verb_processes import TIMEOUT, start

from thinwire import BoundExceeded, ClockSkew, MessageUnreadable
from thinwire.cli.main import main
from thinwire.cli.notice_text import describe_notice
from thinwire.codec import EventsMissed, Watermark

TOPIC = "sub.rooms"
EVENTS = [{"room": f"R{i % 2}", "floor": i % 2, "t": 20 + i / 10} for i in range(40)]


@pytest.fixture(scope="module")
def filled(url, tmp_path_factory):
    """The URL of a broker with forty stored events."""
    path = tmp_path_factory.mktemp("sub") / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    args = ["--infer", "--dimensions", "room,floor", "--retain", "--name", "p1", "--rate", "400"]
    assert main(["pub", TOPIC, str(path), "--to", url, *args]) == 0
    return url


def sub(capsys, url, *args, code=0):
    assert main(["sub", TOPIC, "--to", url, *args]) == code, capsys.readouterr()
    output = capsys.readouterr()
    return [json.loads(line) for line in output.out.splitlines()]


def test_start_at_the_earliest_event_or_an_offset(filled, capsys):
    assert sub(capsys, filled, "--start", "earliest", "--count", "40") == EVENTS
    later = sub(capsys, filled, "--start", "3", "--seconds", "1")
    assert later == EVENTS[-len(later) :]


def test_bounds_are_printed(filled, capsys):
    [first] = sub(capsys, filled, "--start", "earliest", "-n", "1", "--bounds", "--exact", "all")
    assert {name: first[name] for name in EVENTS[0]} == EVENTS[0]
    about = {"_virtual": False, "_source": ["R0", 0], "_ordinal": 1, "_publisher": "p1"}
    assert {name: first[name] for name in about} == about
    assert first["_bound"]["t"] == 0


def test_sources_and_properties_are_selected(filled, capsys):
    some = sub(capsys, filled, "--start", "earliest", "-n", "5", "--sources", "floor=1", "--properties", "t")
    assert some == [event for event in EVENTS if event["floor"] == 1][:5]


def test_a_durable_subscription_resumes(filled, capsys):
    args = ("--durable", "archive", "--start", "earliest")
    first = sub(capsys, filled, *args, "-n", "7")
    second = sub(capsys, filled, *args, "-n", "13")
    assert first + second + sub(capsys, filled, *args, "--seconds", "1") == EVENTS


def test_ctrl_c_and_a_closed_stdout_lose_no_event(filled, capsys):
    args = ("sub", TOPIC, "--to", filled, "--durable", "pipe", "--start", "earliest")
    first = start(*args)
    seen = [first.stdout.readline() for _ in EVENTS]
    first.send_signal(signal.SIGINT)
    rest, complaint = first.communicate(timeout=TIMEOUT)
    assert (first.returncode, rest, complaint) == (130, "", "")
    assert [json.loads(line) for line in seen] == EVENTS
    assert sub(capsys, filled, "--durable", "pipe", "--seconds", "0.5") == []
    piped = start("sub", TOPIC, "--to", filled, "--durable", "head", "--start", "earliest", stdin=subprocess.DEVNULL)
    piped.stdout.close()
    assert (piped.wait(TIMEOUT), piped.stderr.read()) == (1, "")
    piped.stderr.close()
    assert sub(capsys, filled, "--durable", "head", "-n", "40") == EVENTS


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("--start", "soon"), "start is latest, earliest"),
        (("--start", "2024-05-01T10:00:00"), "time zone"),
        (("--tolerance", "x=1"), "property='x'"),
        (("--properties", "x"), "no such property"),
        (("--sources", "floor=up"), "an integer"),
        (("--sources", "t=1"), "sources are chosen by dimensions"),
        (("--emit", "some"), "--emit"),
        (("--durable", "a.b"), "durable"),
    ],
)
def test_invalid_arguments_are_refused(filled, args, complaint, capsys):
    assert main(["sub", TOPIC, "--to", filled, *args]) == 2
    assert complaint in capsys.readouterr().err


def test_an_unknown_topic_gives_a_remedy(url, capsys):
    assert main(["sub", "sub.nothing", "--to", url]) == 2
    assert "register one with `thinwire pub TOPIC --infer`" in capsys.readouterr().err


def test_notices_are_sentences():
    assert describe_notice(EventsMissed("p1", None, None, None, "restart")).startswith(
        "some events of every source from publisher p1"
    )
    assert "differs by +7.0 s" in describe_notice(ClockSkew("p1", 7.0))
    assert "message 12" in describe_notice(MessageUnreadable("p1", 12, "too short"))
    assert "no bound" in describe_notice(BoundExceeded("p1", "t", None, 0.5))
    assert describe_notice(Watermark("p1", 3.0)) == ""
