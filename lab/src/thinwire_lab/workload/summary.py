"""A summary: what is known of a population of subscribers, as small tables.

`topics` and `languages` (id, parent, name), `members` (topic, language, region, count), `messages` (topic, language,
per_month), `nodes` (region and coordinates) or `latencies` (region and a matrix). Any other names and any number of
hierarchies will do. Regions are numbered as they come in `members`, or as a table `regions` (name) says.

The tables of a summary from public records that each know only a part: a taxonomy, countries, groups, city pings.

The rules. Topics are those of the taxonomy. A language belongs to its family; where it is spoken follows from the
countries, which count alike and share themselves equally among their languages. A group has the topic whose name it
bears, and otherwise one dealt by chance; likewise its language where it tells none, as often as it is spoken; its
region is one where the language is spoken. Cities are nodes, in the region of their country. Chance depends on nothing
but the order of the groups.

A summary from records of groups: what their owners say about them, which is rarely all and not always clear.

The rules: a group counts for every topic it is tagged with, since nobody knows whose members overlap; a topic that is
not atomic says too little and is left out; so is a tag that no hierarchy knows; a group without a language, a region
or any topic that counts is left out. What is left out is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy import Hierarchy, numbers, places, texts
from thinwire_lab.workload.interests.hierarchy import column as hierarchy_column
from thinwire_lab.workload.interests.interests import Interests, checked_shape
from thinwire_lab.workload.places.latency_embedding import measured
from thinwire_lab.workload.places.network_nodes import Nodes
from thinwire_lab.workload.random_rows import Floats, Rows, chosen, uniforms

AXES = ("topic", "language")
"""names of the dimensions of the event space; the table of each has an s at the end"""


@dataclass(frozen=True)
class Summary:
    """What a workload is drawn from.

    members: subscribers of base interests by region
    rates: messages per month of base interests, an axis for each hierarchy
    """

    members: Interests
    rates: Floats
    nodes: Nodes

    @classmethod
    def read(cls, tables: Mapping[str, pa.Table], axes: Sequence[str] = AXES) -> Self:
        """The summary in these tables; complaints name the table, the column and the row."""
        network = "nodes" if "nodes" in tables or "latencies" not in tables else "latencies"
        for name in (*(f"{axis}s" for axis in axes), "members", "messages", network):
            if name not in tables:
                raise SummaryError("a table is missing", table=name, found=sorted(tables))
        found = [Hierarchy.read(axis, tables[f"{axis}s"], f"{axis}s") for axis in axes]
        nodes = Nodes.read(tables["nodes"]) if network == "nodes" else measured(tables["latencies"])
        nodes = nodes.among(_regions(tables["members"], nodes, tables.get("regions")))
        _atomic(tables["members"], found, "members")
        members = Interests.read(tables["members"], found, nodes.regions)
        return cls(members, _rates(tables["messages"], found), nodes)

    def tables(self) -> dict[str, pa.Table]:
        """What `read` reads."""
        found = {f"{axis.name}s": axis.table() for axis in self.members.axes}
        found |= {"members": self.members.table(), "messages": self._messages(), "nodes": self.nodes.table()}
        return {**found, "regions": pa.table({"name": list(self.members.regions)})}

    def _messages(self) -> pa.Table:
        there = np.nonzero(self.rates)
        columns = {
            axis.name: pa.array([axis.ids[node] for node in nodes], pa.string())
            for axis, nodes in zip(self.members.axes, there, strict=True)
        }
        return pa.table({**columns, "per_month": self.rates[there]})


def _regions(members: pa.Table, nodes: Nodes, told: pa.Table | None) -> list[str]:
    """The regions that members are in, those that are told first; each needs a node to place them by."""
    named = _placed(members, "region", "members", nodes)
    if not named:
        raise SummaryError("an empty summary: nobody subscribes to anything", table="members")
    first = [] if told is None else _placed(told, "name", "regions", nodes)
    return list(dict.fromkeys([*first, *named]))


def _placed(table: pa.Table, column: str, of: str, nodes: Nodes) -> list[str]:
    """The regions in a column, all of which have nodes."""
    named = [str(region) for region in texts(table, column, of)]
    for row, region in enumerate(named, 1):
        if region not in nodes.regions:
            detail = "a region without nodes: add some, or leave the members out"
            raise SummaryError(detail, table=of, column=column, row=row, value=region, known=nodes.regions)
    return named


def _rates(table: pa.Table, axes: Sequence[Hierarchy]) -> Floats:
    *shape, _ = checked_shape(axes, 1, "messages")
    rates = np.zeros(shape)
    np.add.at(rates, _atomic(table, axes, "messages"), numbers(table, "per_month", "messages", lowest=0.0))
    return rates


def _atomic(table: pa.Table, axes: Sequence[Hierarchy], of: str) -> tuple[Rows, ...]:
    """The nodes of every row, none of which may have children."""
    columns = [places(texts(table, axis.name, of), axis.places, axis.name, of, f"{axis.name}s") for axis in axes]
    for axis, nodes in zip(axes, columns, strict=True):
        inner = np.flatnonzero(axis.fanout[nodes] > 0)
        if inner.size:
            row = int(inner[0])
            detail = "counts belong to atomic nodes: name one below it, or build the summary from groups"
            raise SummaryError(detail, table=of, column=axis.name, row=row + 1, value=axis.ids[nodes[row]])
    return tuple(columns)


SEED = 2009
OTHER = "Other"
"""the family of languages whose own one is not known"""


class Country(NamedTuple):
    """A country: all its names, its region, and the codes of its languages."""

    names: Sequence[str]
    region: str
    languages: Sequence[str]


class Group(NamedTuple):
    """A group of people: its name, how many they are, what they say a month, and their language where it is told."""

    name: str
    members: float
    messages: float
    language: str | None = None


class Ping(NamedTuple):
    """A city, the label of another one (`City Country, Continent`), and the milliseconds between them."""

    source: str
    label: str
    latency: float


class Records(NamedTuple):
    """What the public records say.

    taxonomy: of every topic its id, the one above it (empty at the top) and its name
    families: of a language the name of its family
    """

    taxonomy: Sequence[tuple[str, str, str]]
    countries: Sequence[Country]
    families: Mapping[str, str]
    groups: Sequence[Group]
    pings: Sequence[Ping]


def compose(records: Records) -> tuple[dict[str, pa.Table], dict[str, int]]:
    """The tables `topics`, `languages`, `nodes` and `groups`, and how often which rule was used."""
    told: Counter[str] = Counter()
    nodes, cities = _nodes(records, told)
    spoken = _spoken(records.countries, cities)
    topics = pa.table(
        {
            "id": [topic for topic, _, _ in records.taxonomy],
            "parent": pa.array([above or None for _, above, _ in records.taxonomy], pa.string()),
            "name": [name for _, _, name in records.taxonomy],
        }
    )
    languages = _languages(list(spoken), records.families)
    groups = _groups(records.groups, Hierarchy.read("topic", topics, "topics"), spoken, cities, told)
    return {"topics": topics, "languages": languages, "nodes": nodes, "groups": groups}, dict(told)


def plain_name(name: str) -> str:
    """A name without case, spaces and signs, to compare by.

    >>> plain_name("Web-Development")
    'webdevelopment'
    """
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _languages(codes: list[str], families: Mapping[str, str]) -> pa.Table:
    above = [families.get(code) or OTHER for code in codes]
    kinds = sorted(set(above))
    names = [f"family: {kind}" for kind in kinds]
    return pa.table(
        {
            "id": ["all", *names, *codes],
            "parent": pa.array([None, *["all"] * len(kinds), *(f"family: {kind}" for kind in above)], pa.string()),
            "name": ["all", *kinds, *codes],
        }
    )


def _spoken(countries: Sequence[Country], regions: Sequence[str]) -> dict[str, Floats]:
    """Of every language how many countries speak it in each region that has nodes."""
    found: dict[str, Floats] = {}
    for country in countries:
        if country.region in regions:
            for language in country.languages:
                weights = found.setdefault(language, np.zeros(len(regions)))
                weights[regions.index(country.region)] += 1.0 / len(country.languages)
    if not found:
        raise SummaryError("no country of a region that has cities", table="countries", regions=list(regions))
    return dict(sorted(found.items()))


def _groups(
    groups: Sequence[Group], topics: Hierarchy, spoken: Mapping[str, Floats], regions: Sequence[str], told: Counter[str]
) -> pa.Table:
    """Groups with everything that they do not tell dealt to them."""
    named = {plain_name(topics.labels[leaf]): topics.ids[leaf] for leaf in topics.leaves}
    codes, weights = list(spoken), np.array(list(spoken.values()))
    chance = [uniforms(SEED, name, np.arange(len(groups))) for name in ("topic", "language", "region")]
    dealt = np.minimum((chance[0] * topics.leaves.size).astype(np.int64), topics.leaves.size - 1)
    heard = chosen(weights.sum(axis=1), chance[1])
    rows: dict[str, list[object]] = {name: [] for name in ("topics", "language", "region", "members", "messages")}
    for number, group in enumerate(groups):
        topic = named.get(plain_name(group.name))
        told["topics by name" if topic else "topics dealt"] += 1
        known = group.language in spoken
        told["languages told" if known else "languages dealt"] += 1
        language = str(group.language) if known else codes[heard[number]]
        region = regions[int(chosen(spoken[language], chance[2][number : number + 1])[0])]
        own = (topic or topics.ids[topics.leaves[dealt[number]]], language, region, group.members, group.messages)
        for column, value in zip(rows.values(), own, strict=True):
            column.append(value)
    return pa.table(rows)


def _nodes(records: Records, told: Counter[str]) -> tuple[pa.Table, list[str]]:
    """Cities that are pinged and ping, each with the region of its country, embedded; and those regions."""
    regions = {name: country.region for country in records.countries for name in country.names}
    sources = sorted({ping.source for ping in records.pings}, key=len, reverse=True)
    home: dict[str, str] = {}
    city_of: dict[str, str] = {}
    for label in sorted({ping.label for ping in records.pings}):
        city, region = _placed_composing(label, sources, regions)
        told["cities" if region else "cities without a known country"] += 1
        if region:
            home[city], city_of[label] = region, city
    names = sorted(home)
    if not names:
        raise SummaryError("no city whose country is known", table="pings", cities=len(sources))
    place = {name: number for number, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), np.nan)
    for ping in records.pings:
        if ping.source in place and ping.label in city_of:
            matrix[place[ping.source], place[city_of[ping.label]]] = ping.latency
    columns = {f"to_{number}": matrix[:, number] for number in range(len(names))}
    found = measured(pa.table({"region": [home[name] for name in names], **columns}), of="pings")
    return found.table(), list(dict.fromkeys(found.regions))


def _placed_composing(label: str, sources: Sequence[str], regions: Mapping[str, str]) -> tuple[str, str]:
    """The city in a label and the region of its country; both empty where either is unknown.

    >>> _placed_composing("New York United States, North America", ["New York", "York"], {"United States": "Americas"})
    ('New York', 'Americas')
    """
    body = label.rpartition(", ")[0]
    for city in sources:
        if body.startswith(f"{city} ") and body[len(city) + 1 :] in regions:
            return city, regions[body[len(city) + 1 :]]
    return "", ""


@dataclass
class GroupCounts:
    """What became of the groups; the groups left out are those with a missing or unknown tag."""

    groups: int = 0
    taken: int = 0
    several_topics: int = 0
    not_atomic: int = 0
    unknown: int = 0
    missing: dict[str, int] = field(default_factory=lambda: {"topics": 0, "language": 0, "region": 0})


def from_groups(tables: Mapping[str, pa.Table]) -> tuple[Summary, GroupCounts]:
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
    counts, rates, tally = np.zeros(shape), np.zeros(shape[:-1]), GroupCounts()
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
        map(_tags, hierarchy_column(table, "topics", "groups").to_pylist()),
        languages,
        regions,
        members,
        messages,
        strict=True,
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
    tally: GroupCounts,
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
