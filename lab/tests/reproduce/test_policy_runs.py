"""Streams under policies: counted bytes, topologies and batches."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from thinwire.dictionaries.codecs import Deflate
from thinwire.dictionaries.topology import ONE_TO_ONE, Topology
from thinwire.errors import ConfigError
from thinwire_lab.reproduce.dictionaries.policy_cells import messages_of, run_cell, weight
from thinwire_lab.reproduce.dictionaries.policy_run import AWARE, POLICIES, run_stream

FORM = b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.%d, "state": "ok"}'


def rooms(count: int) -> Iterator[bytes]:
    return (FORM % (n % 9, n % 7, n * 7 % 31, n % 10) for n in range(count))


def test_deflate_costs_its_output_and_a_byte_per_message() -> None:
    (row,) = run_stream(rooms(100), "deflate", [ONE_TO_ONE])
    plain = sum(map(len, rooms(100)))
    packed = sum(len(Deflate().pack(message)) + 1 for message in rooms(100))
    assert row["reduction"] == pytest.approx(100 * (1 - packed / plain))
    assert (row["messages"], row["dictionaries"], row["decisions"]) == (100, 0, [])


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_rows_are_plain_and_one_a_topology(policy: str) -> None:
    settings = {"first": 300} if policy == "single" else {}
    rows = run_stream(rooms(800), policy, [ONE_TO_ONE, Topology(1000)], settings=settings, expected=800)
    assert [row["topology"] for row in rows] == ["1:1", "1,000:1"]
    assert json.loads(json.dumps(rows)) == rows
    assert {row["messages"] for row in rows} == {800}
    shared = rows[0]["dictionary bytes"] == rows[1]["dictionary bytes"]
    assert shared or policy in AWARE


def test_batches_help_deflate_and_count_their_messages() -> None:
    (one,) = run_stream(rooms(500), "deflate", [ONE_TO_ONE], batch=1)
    (many,) = run_stream(rooms(500), "deflate", [ONE_TO_ONE], batch=13)
    assert many["messages"] == one["messages"] == 500
    assert many["mean size"] == one["mean size"]
    assert many["reduction"] > one["reduction"] + 20


def test_a_stream_is_read_incrementally() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        for message in rooms(10**9):
            taken += 1
            if taken > 5000:
                raise KeyboardInterrupt
            yield message

    with pytest.raises(KeyboardInterrupt):
        run_stream(endless(), "ours", [ONE_TO_ONE])
    assert taken == 5001


def test_cells_open_streams_of_a_folder_and_restart_them(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_bytes(b"\n".join(rooms(40)) + b"\n")
    data = str(tmp_path)
    assert len(list(messages_of("own", data, 100))) == 40
    assert list(messages_of("own", data, 90, cycle=True))[40:80] == list(rooms(40))
    cell = {"stream": "own", "policy": "ours, length known", "data": data, "messages": 100, "cycle": True}
    (row,) = run_cell(**cell, publishers=[1])["rows"]
    assert row["messages"] == 100
    assert weight(cell) > weight({**cell, "policy": "single"})


def test_a_repeated_stream_needs_a_limit() -> None:
    with pytest.raises(ConfigError, match="needs a limit"):
        messages_of("building-json", None, cycle=True)


def test_missing_parts_are_reported() -> None:
    with pytest.raises(ConfigError, match="unknown stream"):
        list(messages_of("nowhere", None, 1))
    with pytest.raises(ConfigError, match="unknown policy"):
        run_stream(rooms(1), "guess", [ONE_TO_ONE])


def test_an_empty_stream_gives_a_row_of_zeros(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    assert list(messages_of("empty", str(tmp_path), 5, cycle=True)) == []
    (row,) = run_stream([], "predict", [ONE_TO_ONE])
    assert (row["messages"], row["reduction"]) == (0, 0.0)


@pytest.mark.parametrize("name", ["single", "fixed rate", "adaptive", "predict"])
def test_the_dictionary_trainer_finds_published_policies_by_entry_point(name: str) -> None:
    code = (
        "import sys\n"
        "from thinwire.dictionaries.policies.policy_catalogue import create_policy\n"
        "from thinwire.dictionaries.topology import Topology\n"
        "assert not any(module.startswith('thinwire_lab') for module in sys.modules)\n"
        f"print(create_policy({name!r}, Topology()).name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == name
