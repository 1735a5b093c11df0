"""A summary from records of groups: what their owners say about them, which is rarely all and not always clear.

The rules: a group counts for every topic it is tagged with, since nobody knows whose members overlap; a topic that is
not atomic says too little and is left out; so is a tag that no hierarchy knows; a group without a language, a region
or any topic that counts is left out. What is left out is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from thinwire.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.hierarchy_checks import column, numbers, texts
from thinwire_lab.workload.interests.interests import Interests, checked_shape
from thinwire_lab.workload.places.network_nodes_nodes import Nodes
from thinwire_lab.workload.random_rows_randomness import Floats
from thinwire_lab.workload.summary import AXES, Summary


@dataclass
class Tally:
    """What became of the groups; the groups left out are those with a missing or unknown tag."""

    groups: int = 0
    taken: int = 0
    several_topics: int = 0
    not_atomic: int = 0
    unknown: int = 0
    missing: dict[str, int] = field(default_factory=lambda: {"topics": 0, "language": 0, "region": 0})


def from_groups(tables: Mapping[str, pa.Table]) -> tuple[Summary, Tally]:
    """A summary from `groups` (topics, language, region, members, messages per month), and what became of them.

    tables: `groups`, the hierarchies `topics` and `languages`, and `nodes`; a group's topics are a list, or text with
        a semicolon between them
    """
    for name in ("groups", "topics", "languages", "nodes"):
        if name not in tables:
            raise SummaryError("a table is missing", table=name, found=sorted(tables))
    axes = tuple(Hierarchy.read(axis, tables[f"{axis}s"], f"{axis}s") for axis in AXES)
    nodes = Nodes.read(tables["nodes"])
    shape = checked_shape(axes, len(nodes.regions), "groups")
    counts, rates, tally = np.zeros(shape), np.zeros(shape[:-1]), Tally()
    for topics, language, region, members, messages in _records(tables["groups"]):
        places = _places(axes, nodes.regions, topics, language, region, tally)
        for topic in places[0]:
            counts[topic, places[1], places[2]] += members
            rates[topic, places[1]] += messages
    if not tally.taken:
        raise SummaryError("an empty summary: no group says enough about itself", table="groups", groups=tally.groups)
    return _summary(axes, nodes, counts, rates), tally


def _summary(axes: tuple[Hierarchy, ...], nodes: Nodes, counts: Floats, rates: Floats) -> Summary:
    """Regions that have nodes but no members are left out."""
    kept = np.flatnonzero(counts.reshape(-1, len(nodes.regions)).any(axis=0))
    regions = [nodes.regions[place] for place in kept]
    return Summary(Interests(axes, tuple(regions), counts[..., kept]), rates, nodes.among(regions))


def _records(table: pa.Table) -> Any:
    members = numbers(table, "members", "groups", lowest=0.0)
    messages = numbers(table, "messages", "groups", lowest=0.0)
    languages, regions = (texts(table, name, "groups", empty=True) for name in ("language", "region"))
    return zip(
        map(_tags, column(table, "topics", "groups").to_pylist()), languages, regions, members, messages, strict=True
    )


def _tags(value: Any) -> list[str]:
    """The topics of a group.

    >>> _tags("Soccer; Tennis"), _tags(["Soccer"]), _tags(None)
    (['Soccer', 'Tennis'], ['Soccer'], [])
    """
    listed = value.split(";") if isinstance(value, str) else value or []
    return [tag for tag in (str(tag).strip() for tag in listed) if tag]


def _places(
    axes: tuple[Hierarchy, ...],
    regions: Sequence[str],
    topics: list[str],
    language: str | None,
    region: str | None,
    tally: Tally,
) -> tuple[list[int], int, int]:
    """The atomic topics that a group counts for, its language and its region; no topics where it does not count."""
    tally.groups += 1
    for name, there in (("topics", topics), ("language", language), ("region", region)):
        if not there:
            tally.missing[name] += 1
    known = [axes[0].places[topic] for topic in dict.fromkeys(topics) if topic in axes[0].places]
    atomic = [topic for topic in known if axes[0].fanout[topic] == 0]
    tally.not_atomic += len(known) - len(atomic)
    spoken = axes[1].places.get(language or "", -1)
    strange = [bool(language) and (spoken < 0 or axes[1].fanout[spoken] > 0), bool(region) and region not in regions]
    tally.unknown += len(set(topics)) - len(known) + sum(strange)
    if not atomic or not language or not region or any(strange):
        return [], 0, 0
    tally.taken += 1
    tally.several_topics += len(atomic) > 1
    return atomic, spoken, list(regions).index(region)
