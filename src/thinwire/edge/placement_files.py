"""Topics, hosts and models in files: TOML that people write, JSON that training writes.

[[topic]]                       [[host]]
name = "region-7.gps"           name = "edge"
rate = 20        # messages/s   cores = 4
interval = 0.03  # s a message  count = 6
promise = 1.0    # s, or left out
function = "regions:count"      # for `thinwire place apply`; docs/edge.md has the others
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from thinwire.analysis.machine import this_machine
from thinwire.clock import Clock
from thinwire.edge import EdgeTopic
from thinwire.errors import ConfigError
from thinwire.placement import Host, Rising, TopicLoad
from thinwire.placement.measured_runs import MeasuredRun, runs_document, runs_of

MAX_BYTES = 32 << 20
STORED = "simulated.json"
RUNS = "edge-runs.json"
"""what a file of measured runs is called in a folder of data"""


PROCESSING = {field.name for field in fields(EdgeTopic)} - {"topic"}
"""what a topic of a file may say beside its name; how it is processed is for `thinwire place apply`"""


def read_topics(path: Path, promise: float) -> list[TopicLoad]:
    """The topics of a file; those without a promise get this one."""
    own = {field.name for field in fields(TopicLoad)}
    entries = _entries(path, "topic", own | PROCESSING, ("name", "rate", "interval"))
    return [TopicLoad(**{"promise": promise, **{k: v for k, v in entry.items() if k in own}}) for entry in entries]


def read_edge_topics(path: Path, promise: float) -> list[EdgeTopic]:
    """The same topics with how they are processed."""
    entries = _entries(path, "topic", {"name", *PROCESSING}, ("name", "function", "rate", "interval"))
    named = [{**{k: v for k, v in entry.items() if k != "name"}, "topic": entry["name"]} for entry in entries]
    return [EdgeTopic(**{"promise": promise, **entry}) for entry in named]


def read_hosts(path: Path) -> list[Host]:
    """The kinds of hosts of a file."""
    return [Host(**entry) for entry in _entries(path, "host", {field.name for field in fields(Host)}, ("name",))]


def host_text(host: Host) -> str:
    """A host as it stands in a file of hosts.

    >>> print(host_text(Host("box", cores=2)).splitlines()[:3])
    ['[[host]]', 'name = "box"', 'cores = 2']
    """
    known = {name: value for name, value in asdict(host).items() if value is not None}
    return "".join(["[[host]]\n", *(f"{name} = {json.dumps(value)}\n" for name, value in known.items())])


def named(hosts: Sequence[Host], wanted: Sequence[str]) -> list[Host]:
    """Only the hosts of these names; all where none is named."""
    known = {host.name: host for host in hosts}
    for name in wanted:
        if name not in known:
            raise ConfigError("unknown host", field="host", value=name, choose_from=sorted(known))
    return [known[name] for name in wanted] if wanted else list(hosts)


def read_model(path: Path | None) -> Rising:
    """The model of a file; the stored one, learned from simulated runs, where none is named."""
    stored = resources.files("thinwire.analysis").joinpath(STORED)
    document = json.loads(stored.read_text(encoding="utf-8")) if path is None else _json(path)
    if not isinstance(document, Mapping):
        raise ConfigError("a model is a JSON object", model=str(path))
    return Rising.from_document(document)


def read_runs(path: Path) -> list[MeasuredRun]:
    """Runs as a load harness measured them."""
    return runs_of(_json(path))


def write_runs(path: Path, runs: Sequence[MeasuredRun], clock: Clock, how: str) -> None:
    """Keep measured runs, with this machine and the day."""
    write_json(path, runs_document(runs, machine=this_machine(), date=day(clock), how=how))


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """A document as a file; whoever reads sees all of it or nothing."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)


def day(clock: Clock) -> str:
    """The date, as it stands in documents."""
    return datetime.fromtimestamp(clock.now(), UTC).date().isoformat()


def _json(path: Path) -> Any:
    try:
        return json.loads(_text(path))
    except ValueError as problem:
        raise ConfigError(f"this is no JSON: {problem}", file=str(path)) from None


def _entries(path: Path, kind: str, known: set[str], needed: Sequence[str]) -> list[dict[str, Any]]:
    try:
        document = tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"this is no TOML: {problem}", file=str(path)) from None
    entries = document.get(kind)
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(f"write every {kind} as a table [[{kind}]]", file=str(path), field=kind)
    for number, entry in enumerate(entries):
        where = f"{kind}[{number}]"
        for name in needed:
            if name not in entry:
                raise ConfigError("a field is missing", file=str(path), field=f"{where}.{name}")
        for name in entry:
            if name not in known:
                raise ConfigError("no such field", file=str(path), field=f"{where}.{name}", choose_from=sorted(known))
        if not isinstance(entry["name"], str) or not entry["name"]:
            raise ConfigError("a name is text", file=str(path), field=f"{where}.name", value=entry["name"])
    return entries


def _text(path: Path) -> str:
    if path.stat().st_size > MAX_BYTES:
        raise ConfigError("a file too large", file=str(path), bytes=path.stat().st_size, limit=MAX_BYTES)
    return path.read_text(encoding="utf-8")
