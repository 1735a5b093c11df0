"""`thinwire sub --where`: prints only matching events, and marks the error in an invalid predicate."""

import json

from thinwire.cli.main import main

TOPIC = "sub.where"
EVENTS = [{"room": f"R{i % 2}", "t": 20 + i / 10} for i in range(20)]


def test_only_matching_events_are_printed(url, tmp_path, capsys):
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    assert main(["pub", TOPIC, str(path), "--to", url, "--infer", "--dimensions", "room", "--retain"]) == 0
    capsys.readouterr()
    command = ["sub", TOPIC, "--to", url, "--start", "earliest", "--where", "t between 20.5 and 21 and room = 'R1'"]
    assert main([*command, "--count", "3"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed == [event for event in EVENTS if 20.5 <= event["t"] <= 21 and event["room"] == "R1"]
    assert main(["sub", TOPIC, "--to", url, "--where", "t > 20 and rom = 'R1'"]) == 2
    errors = capsys.readouterr().err
    assert "no such property" in errors
    assert errors.splitlines()[-1].index("^") == errors.splitlines()[-2].index("rom")
