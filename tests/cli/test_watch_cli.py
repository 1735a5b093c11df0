"""`thinwire watch`: prints notifications as lines, marks errors in an expression, and closes on Ctrl-C."""

import json
import signal
import threading

import pytest
from verb_processes import TIMEOUT, start

from thinwire.cli.main import main

TOPIC = "watched.rooms"
EVENTS = [{"room": "R1", "t": 20.0 + i % 3} for i in range(6)]
EXPRESSION = f"{TOPIC}[R1].t +- 1"


@pytest.fixture(scope="module")
def filled(url, tmp_path_factory):
    """The URL of a broker with six stored events."""
    path = tmp_path_factory.mktemp("watch") / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    args = ["--infer", "--dimensions", "room", "--retain", "--name", "p1"]
    assert main(["pub", TOPIC, str(path), "--to", url, *args]) == 0
    return url


def test_notifications_are_printed_as_json_or_text(filled, capsys):
    args = ["watch", EXPRESSION, "--to", filled, "--start", "earliest", "--max-delay", "0.1"]
    assert main([*args, "--count", "3", "--json"]) == 0
    output = capsys.readouterr()
    assert "thinwire: watching " in output.err
    lines = [json.loads(line) for line in output.out.splitlines()]
    name = f"{TOPIC}[R1].t"
    assert [line["values"] for line in lines] == [{name: 20}, {name: 22}, {name: 20}]
    assert [(line["number"], line["late"], line["conjuncts"]) for line in lines] == [
        (number, False, [[name]]) for number in (1, 2, 3)
    ]
    assert main([*args, "-n", "1"]) == 0
    assert f"  {name} 20" in capsys.readouterr().out


def test_errors_in_an_expression_are_marked(filled, capsys):
    for expression, sentence, pointed in (
        (f"{TOPIC}[R1].t +- much", "a number is expected", "much"),
        (f"{TOPIC}[R1].heat +- 1", "no such property", TOPIC),
        ("nowhere[R1].t +- 1", "no such topic", "nowhere"),
    ):
        assert main(["watch", expression, "--to", filled]) == 2
        output = capsys.readouterr().err.splitlines()
        assert sentence in output[0]
        assert output[-1].index("^") == output[-2].index(pointed)
    assert main(["watch", EXPRESSION, "--to", filled, "--start", "7"]) == 2
    assert "ISO time" in capsys.readouterr().err


def test_ctrl_c_closes_the_watch(filled):
    process = start("watch", EXPRESSION, "--to", filled, "--start", "earliest", "--max-delay", "0.1")
    timer = threading.Timer(TIMEOUT, process.kill)
    timer.start()
    try:
        assert TOPIC in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT)
        assert process.returncode == 130
    finally:
        timer.cancel()
        process.kill()
        process.communicate()
