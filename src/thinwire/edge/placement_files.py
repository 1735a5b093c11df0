"""Files of topics and hosts (TOML) and of latency models (JSON).

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
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

from thinwire.edge.edge_documents import EdgeTopic
from thinwire.errors import ConfigError
from thinwire.placement import Host, MonotoneModel, TopicLoad

MAX_BYTES = 32 << 20
DEFAULT_MODEL = "latency_model.json"
"""model trained on simulated hosts, shipped with the package"""
PROCESSING = {field.name for field in fields(EdgeTopic)} - {"topic"}
"""fields of a topic beside its name; `thinwire place apply` uses those about processing"""


def read_topics(path: Path, promise: float) -> list[TopicLoad]:
    """Read the topics of a file; `promise` is the default latency limit."""
    own = {field.name for field in fields(TopicLoad)}
    entries = _entries(path, "topic", own | PROCESSING, ("name", "rate", "interval"))
    return [TopicLoad(**{"promise": promise, **{k: v for k, v in entry.items() if k in own}}) for entry in entries]


def read_edge_topics(path: Path, promise: float) -> list[EdgeTopic]:
    """Read the topics of a file with their processing."""
    entries = _entries(path, "topic", {"name", *PROCESSING}, ("name", "function", "rate", "interval"))
    return [EdgeTopic(topic=entry.pop("name"), **{"promise": promise, **entry}) for entry in entries]


def read_hosts(path: Path) -> list[Host]:
    """Read the kinds of hosts of a file."""
    return [Host(**entry) for entry in _entries(path, "host", {field.name for field in fields(Host)}, ("name",))]


def select_hosts(hosts: Sequence[Host], names: Sequence[str]) -> list[Host]:
    """Return the hosts with these names; all hosts if there are no names."""
    known = {host.name: host for host in hosts}
    for name in names:
        if name not in known:
            raise ConfigError("unknown host", field="host", value=name, choose_from=sorted(known))
    return [known[name] for name in names] if names else list(hosts)


def read_model(path: Path | None) -> MonotoneModel:
    """Read a latency model; without a path the one shipped with the package."""
    stored = resources.files("thinwire.edge").joinpath(DEFAULT_MODEL)
    document = json.loads(stored.read_text(encoding="utf-8")) if path is None else read_json(path)
    if not isinstance(document, Mapping):
        raise ConfigError("a model is a JSON object", model=str(path))
    return MonotoneModel.from_document(document)


def read_json(path: Path) -> Any:
    """Read a JSON file of limited size."""
    try:
        return json.loads(_text(path))
    except ValueError as problem:
        raise ConfigError(f"not JSON: {problem}", file=str(path)) from None


def _entries(path: Path, kind: str, known: set[str], needed: Sequence[str]) -> list[dict[str, Any]]:
    try:
        document = tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"not TOML: {problem}", file=str(path)) from None
    entries = document.get(kind)
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(f"write every {kind} as a table [[{kind}]]", file=str(path), field=kind)
    for number, entry in enumerate(entries):
        where = f"{kind}[{number}]"
        for name in needed:
            if name not in entry:
                raise ConfigError("missing field", file=str(path), field=f"{where}.{name}")
        for name in entry:
            if name not in known:
                raise ConfigError("unknown field", file=str(path), field=f"{where}.{name}", choose_from=sorted(known))
        if not isinstance(entry["name"], str) or not entry["name"]:
            raise ConfigError("a name must be a string", file=str(path), field=f"{where}.name", value=entry["name"])
    return entries


def _text(path: Path) -> str:
    if path.stat().st_size > MAX_BYTES:
        raise ConfigError("the file is too large", file=str(path), bytes=path.stat().st_size, limit=MAX_BYTES)
    return path.read_text(encoding="utf-8")
