"""`--plan`: `up` registers the topics of a plan, and `pub` publishes with its settings."""

import json

from verb_processes import running

from thinwire.cli.main import main
from thinwire.schema import Property, Schema
from thinwire.topics.topic_plan import Plan, TopicPlan, write_plan
from thinwire.topics.topic_settings import Settings

ROOMS = Schema("planned.rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
PLAN = Plan({ROOMS.name: TopicPlan(ROOMS, Settings(retain=True, tolerance={"t": 0.5}), linger=0.02)})


def test_up_registers_and_pub_publishes_as_planned(tmp_path, capsys):
    plan, events = tmp_path / "plan.toml", tmp_path / "events.jsonl"
    plan.write_text(write_plan(PLAN))
    events.write_text("".join(json.dumps({"room": "a", "t": 20 + n / 10}) + "\n" for n in range(20)))
    with running("up", "--port", "0", "--plan", str(plan), "--json") as (_, line):
        url = line["url"]
        assert main(["registry", "get", ROOMS.name, "--to", url]) == 0
        settings = json.loads(capsys.readouterr().out)["settings"]
        assert (settings["retain"], settings["tolerance"]) == (True, {"t": 0.5})
        assert main(["pub", ROOMS.name, str(events), "--to", url, "--plan", str(plan), "--json"]) == 0
        summary = json.loads(capsys.readouterr().out)
        assert (summary["events"], summary["unheard"]) == (20, False)
        assert summary["frames"] < 15


def test_an_invalid_plan_is_refused_before_anything_starts(tmp_path, capsys):
    plan = tmp_path / "plan.toml"
    plan.write_text(write_plan(PLAN).replace("linger = 0.02", "linger = -1"))
    for verb in (["up", "--port", "0"], ["pub", ROOMS.name]):
        assert main([*verb, "--plan", str(plan)]) == 2
        assert ".linger" in capsys.readouterr().err
    assert main(["pub", ROOMS.name, "--plan", str(plan), "--infer"]) == 2
    assert "omit --schema and --infer" in capsys.readouterr().err
