"""Assignments to running hosts: few hosts, few moves, and pinned topics keep their host."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from edge_setup import TERM, run_at_site, topic

from thinwire.edge import EdgeHostDocument
from thinwire.edge.assignment import find_running_hosts, propose_hosts
from thinwire.edge.placement_files import read_edge_topics, read_model, read_topics
from thinwire.errors import ConfigError, NotEnoughHosts

ALIKE = {name: EdgeHostDocument(name, cores=4, contention=0.03) for name in ("h1", "h2", "h3")}


def test_identical_hosts_keep_most_of_their_topics():
    topics = [topic(f"t{n}", rate=5, interval=0.01) for n in range(4)]
    before = {"t0": "h3", "t1": "h3", "t2": "h2", "t3": "h2"}
    where, plan = propose_hosts(topics, ALIKE, before, read_model(None), 2)
    assert len(set(where.values())) == len(plan.assignments) == 2
    assert sum(where[name] != host for name, host in before.items()) <= 2
    assert set(where.values()) == {"h2", "h3"}


def test_hosts_of_different_kinds_are_assigned_by_name():
    hosts = {**ALIKE, "h4": EdgeHostDocument("h4", cores=1)}
    where, _ = propose_hosts([topic(f"t{n}") for n in range(3)], hosts, {}, read_model(None), 1)
    assert len(set(where.values())) == 3
    assert set(where.values()) <= hosts.keys()


def test_other_topics_are_placed_around_a_pinned_topic():
    topics = [topic("gps", upstream="results", host="h2"), topic("a"), topic("b")]
    where, plan = propose_hosts(topics, ALIKE, {}, read_model(None), 1)
    assert where["gps"] == "h2"
    assert {where["a"], where["b"]} == {"h1", "h3"}
    assert plan is None
    with pytest.raises(ConfigError, match="not running"):
        propose_hosts([topic("gps", host="h9")], ALIKE, {}, read_model(None), 1)
    with pytest.raises(NotEnoughHosts):
        propose_hosts(topics, {}, {}, read_model(None), 1)


def test_a_topic_file_serves_assignments_and_proposals(tmp_path):
    file = tmp_path / "topics.toml"
    file.write_text(
        '[[topic]]\nname = "gps"\nrate = 5\ninterval = 0.01\nfunction = "m:f"\nupstream = "results"\nhost = "h1"\n'
    )
    [found] = read_edge_topics(file, 0.5)
    assert (found.topic, found.near, found.promise, found.output) == ("gps", True, 0.5, "gps.out")
    assert read_topics(file, 0.5) == [found.placed]
    file.write_text('[[topic]]\nname = "gps"\nrate = 5\ninterval = 0.01\n')
    with pytest.raises(ConfigError, match="function"):
        read_edge_topics(file, 0.5)


def test_only_running_hosts_are_found():
    async def scenario(site):
        await site.host("h1")
        await site.host("h2")
        hub = await site.connect()
        await site.leave("h2")
        await asyncio.sleep(0.3)
        assert set(await find_running_hosts(hub, TERM)) == {"h1"}

    run_at_site(scenario)


@pytest.mark.slow
def test_the_command_assigns_topics_to_running_hosts(tmp_path):
    file = tmp_path / "topics.toml"
    file.write_text('[[topic]]\nname = "gps"\nrate = 5\ninterval = 0.01\nfunction = "edge_functions:shout"\n')
    source = str(Path(__file__).parents[2] / "src")

    def run_command(url, *more):
        command = [sys.executable, "-m", "thinwire", "place", "apply", "--topics", str(file), "--to", url, "--json"]
        environment = {**os.environ, "PYTHONPATH": source}
        return subprocess.run([*command, *more], capture_output=True, text=True, env=environment, check=False)

    async def scenario(site):
        without_hosts = await asyncio.to_thread(run_command, site.server.url)
        assert without_hosts.returncode == 2
        assert "thinwire edge" in without_hosts.stderr
        host = await site.host("h1", cores=4)
        dry = json.loads((await asyncio.to_thread(run_command, site.server.url, "--dry-run")).stdout)
        assert (dry["applied"], dry["hosts"]) == (False, {"gps": "h1"})
        assert not host.active_work
        done = json.loads((await asyncio.to_thread(run_command, site.server.url)).stdout)
        assert (done["applied"], done["before"]) == (True, {})
        await site.publish("gps", [b"a"])
        assert [result.body for result in await site.results("gps.out", 1)] == [b"A"]

    run_at_site(scenario)
