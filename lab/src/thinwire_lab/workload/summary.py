"""Summaries: small tables that describe a population of subscribers, and their construction from records.

A summary has the tables `topics` and `languages` (id, parent, name), `members` (topic, language, region, count),
`messages` (topic, language, per_month), and `nodes` (region and coordinates) or `latencies` (region and a matrix).
Other hierarchies are possible. Regions are numbered in the order of `members`, or of a table `regions` (name).

`compose` builds tables from public records: a taxonomy, countries, groups and pings between cities. Topics are those of
the taxonomy. Languages belong to families; their regions follow from the countries, which have equal weights, divided
equally among their languages. A group has the topic with its name, otherwise a random one; its own language, otherwise
a random one in proportion to the countries; and a random region of its language. Cities are nodes in the region of
their country. The random choices depend only on the order of the groups.

`from_groups` builds a summary from records of groups. A group counts for each of its topics, since overlaps of members
are unknown. Topics that are not atomic and tags that no hierarchy contains are ignored; groups without language, region
or topic are ignored. All of these are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy import Hierarchy, number_column, require_column, text_column
from thinwire_lab.workload.interests.interests import Interests, count_shape
from thinwire_lab.workload.places.latency_embedding import read_latencies
from thinwire_lab.workload.places.network_nodes import Nodes
from thinwire_lab.workload.random_rows import Floats, Ints, choose_weighted, uniforms

AXES = ("topic", "language")
"""dimensions of the event space; the table of an axis has its name with an s"""


@dataclass(frozen=True)
class Summary:
    """The input of workload generation.

    members: subscribers of base interests by region
    rates: messages per month of base interests, one axis per hierarchy
    """

    members: Interests
    rates: Floats
    nodes: Nodes

    @classmethod
    def read(cls, tables: Mapping[str, pa.Table], axes: Sequence[str] = AXES) -> Self:
        """Return the summary of tables. Errors name the table, the column and the row."""
        node_table = "nodes" if "nodes" in tables or "latencies" not in tables else "latencies"
        _require_tables(tables, *(f"{axis}s" for axis in axes), "members", "messages", node_table)
        hierarchies = [Hierarchy.read(axis, tables[f"{axis}s"], f"{axis}s") for axis in axes]
        nodes = Nodes.read(tables["nodes"]) if node_table == "nodes" else read_latencies(tables["latencies"])
        nodes = nodes.with_regions(_regions(tables["members"], nodes, tables.get("regions")))
        _atomic(tables["members"], hierarchies, "members")
        members = Interests.read(tables["members"], hierarchies, nodes.regions)
        return cls(members, _rates(tables["messages"], hierarchies), nodes)

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables that `read` reads."""
        tables = {f"{axis.name}s": axis.table() for axis in self.members.axes}
        tables |= {"members": self.members.table(), "messages": self._messages(), "nodes": self.nodes.table()}
        return {**tables, "regions": pa.table({"name": list(self.members.regions)})}

    def _messages(self) -> pa.Table:
        used = np.nonzero(self.rates)
        columns = {
            axis.name: pa.array([axis.ids[node] for node in nodes], pa.string())
            for axis, nodes in zip(self.members.axes, used, strict=True)
        }
        return pa.table({**columns, "per_month": self.rates[used]})


def _require_tables(tables: Mapping[str, pa.Table], *names: str) -> None:
    for name in names:
        if name not in tables:
            raise SummaryError("a table is missing", table=name, found=sorted(tables))


def _regions(members: pa.Table, nodes: Nodes, table: pa.Table | None) -> list[str]:
    """Return the regions of members, in the order of the table `regions` if it exists. Each region needs a node."""
    used = _checked_regions(members, "region", "members", nodes)
    if not used:
        raise SummaryError("empty summary: no members", table="members")
    listed = [] if table is None else _checked_regions(table, "name", "regions", nodes)
    return list(dict.fromkeys([*listed, *used]))


def _checked_regions(table: pa.Table, column: str, of: str, nodes: Nodes) -> list[str]:
    """Return the regions of a column. Raise an error for a region without nodes."""
    regions = [str(region) for region in text_column(table, column, of)]
    for row, region in enumerate(regions, 1):
        if region not in nodes.regions:
            detail = "a region without nodes; add nodes or remove the members"
            raise SummaryError(detail, table=of, column=column, row=row, value=region, known=nodes.regions)
    return regions


def _rates(table: pa.Table, axes: Sequence[Hierarchy]) -> Floats:
    *shape, _ = count_shape(axes, 1, "messages")
    rates = np.zeros(shape)
    np.add.at(rates, _atomic(table, axes, "messages"), number_column(table, "per_month", "messages", lowest=0.0))
    return rates


def _atomic(table: pa.Table, axes: Sequence[Hierarchy], of: str) -> tuple[Ints, ...]:
    """Return the nodes of each row. Raise an error for nodes with children."""
    columns = [axis.read_nodes(table, of) for axis in axes]
    for axis, nodes in zip(axes, columns, strict=True):
        wrong = np.flatnonzero(axis.fanout[nodes] > 0)
        if wrong.size:
            row = int(wrong[0])
            detail = "counts need atomic nodes; name a descendant, or build the summary from groups"
            raise SummaryError(detail, table=of, column=axis.name, row=row + 1, value=axis.ids[nodes[row]])
    return tuple(columns)


SEED = 2009
OTHER = "Other"
"""family of languages whose family is unknown"""


class Country(NamedTuple):
    """A country with all its names, its region, and the codes of its languages."""

    names: Sequence[str]
    region: str
    languages: Sequence[str]


class Group(NamedTuple):
    """A group of people: name, number of members, messages per month, and language if known."""

    name: str
    members: float
    messages: float
    language: str | None = None


class Ping(NamedTuple):
    """Latency in milliseconds from a city to the city of a label (`City Country, Continent`)."""

    source: str
    label: str
    latency: float


class Records(NamedTuple):
    """Public records.

    taxonomy: id, parent (empty at the top) and name of each topic
    families: name of the family of each language
    """

    taxonomy: Sequence[tuple[str, str, str]]
    countries: Sequence[Country]
    families: Mapping[str, str]
    groups: Sequence[Group]
    pings: Sequence[Ping]


def compose(records: Records) -> tuple[dict[str, pa.Table], dict[str, int]]:
    """Return the tables `topics`, `languages`, `nodes` and `groups`, and the number of uses of each rule."""
    rules: Counter[str] = Counter()
    nodes, cities = _nodes(records, rules)
    spoken = _spoken(records.countries, cities)
    topics = pa.table(
        {
            "id": [topic for topic, _, _ in records.taxonomy],
            "parent": pa.array([parent or None for _, parent, _ in records.taxonomy], pa.string()),
            "name": [name for _, _, name in records.taxonomy],
        }
    )
    languages = _languages(list(spoken), records.families)
    groups = _groups(records.groups, Hierarchy.read("topic", topics, "topics"), spoken, cities, rules)
    return {"topics": topics, "languages": languages, "nodes": nodes, "groups": groups}, dict(rules)


def plain_name(name: str) -> str:
    """Return a name in lower case without spaces and punctuation, for comparison.

    >>> plain_name("Web-Development")
    'webdevelopment'
    """
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _languages(codes: list[str], families: Mapping[str, str]) -> pa.Table:
    parents = [families.get(code) or OTHER for code in codes]
    distinct = sorted(set(parents))
    names = [f"family: {kind}" for kind in distinct]
    return pa.table(
        {
            "id": ["all", *names, *codes],
            "parent": pa.array([None, *["all"] * len(distinct), *(f"family: {kind}" for kind in parents)], pa.string()),
            "name": ["all", *distinct, *codes],
        }
    )


def _spoken(countries: Sequence[Country], regions: Sequence[str]) -> dict[str, Floats]:
    """Return the weight of each language in each region that has nodes: the number of countries that speak it."""
    weights: dict[str, Floats] = {}
    for country in countries:
        if country.region in regions:
            for language in country.languages:
                by_region = weights.setdefault(language, np.zeros(len(regions)))
                by_region[regions.index(country.region)] += 1.0 / len(country.languages)
    if not weights:
        raise SummaryError("no country of a region that has cities", table="countries", regions=list(regions))
    return dict(sorted(weights.items()))


def _groups(
    groups: Sequence[Group],
    topics: Hierarchy,
    spoken: Mapping[str, Floats],
    regions: Sequence[str],
    rules: Counter[str],
) -> pa.Table:
    """Return groups, with random values for missing topics, languages and regions."""
    by_name = {plain_name(topics.labels[leaf]): topics.ids[leaf] for leaf in topics.leaves}
    languages, weights = list(spoken), np.array(list(spoken.values()))
    random = [uniforms(SEED, name, np.arange(len(groups))) for name in ("topic", "language", "region")]
    random_topics = np.minimum((random[0] * topics.leaves.size).astype(np.int64), topics.leaves.size - 1)
    random_languages = choose_weighted(weights.sum(axis=1), random[1])
    rows: list[dict[str, object]] = []
    for row, group in enumerate(groups):
        topic = by_name.get(plain_name(group.name))
        rules["topics by name" if topic else "topics dealt"] += 1
        is_known = group.language in spoken
        rules["languages told" if is_known else "languages dealt"] += 1
        language = str(group.language) if is_known else languages[random_languages[row]]
        region = regions[int(choose_weighted(spoken[language], random[2][row : row + 1])[0])]
        topic = topic or topics.ids[topics.leaves[random_topics[row]]]
        tags = {"topics": topic, "language": language, "region": region}
        rows.append({**tags, "members": group.members, "messages": group.messages})
    return pa.Table.from_pylist(rows)


def _nodes(records: Records, rules: Counter[str]) -> tuple[pa.Table, list[str]]:
    """Return the embedded cities with known countries, and their regions."""
    regions = {name: country.region for country in records.countries for name in country.names}
    sources = sorted({ping.source for ping in records.pings}, key=len, reverse=True)
    region_of: dict[str, str] = {}
    city_of: dict[str, str] = {}
    for label in sorted({ping.label for ping in records.pings}):
        city, region = _find_city(label, sources, regions)
        rules["cities" if region else "cities without a known country"] += 1
        if region:
            region_of[city], city_of[label] = region, city
    names = sorted(region_of)
    if not names:
        raise SummaryError("no city whose country is known", table="pings", cities=len(sources))
    index = {name: row for row, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), np.nan)
    for ping in records.pings:
        if ping.source in index and ping.label in city_of:
            matrix[index[ping.source], index[city_of[ping.label]]] = ping.latency
    columns = {f"to_{row}": matrix[:, row] for row in range(len(names))}
    nodes = read_latencies(pa.table({"region": [region_of[name] for name in names], **columns}), of="pings")
    return nodes.table(), list(dict.fromkeys(nodes.regions))


def _find_city(label: str, sources: Sequence[str], regions: Mapping[str, str]) -> tuple[str, str]:
    """Return the city of a label and the region of its country, or empty texts.

    >>> _find_city("New York United States, North America", ["New York", "York"], {"United States": "Americas"})
    ('New York', 'Americas')
    """
    body = label.rpartition(", ")[0]
    for city in sources:
        if body.startswith(f"{city} ") and body[len(city) + 1 :] in regions:
            return city, regions[body[len(city) + 1 :]]
    return "", ""


@dataclass
class GroupCounts:
    """Numbers of groups that were taken or ignored; groups with a missing or unknown tag are ignored."""

    groups: int = 0
    taken: int = 0
    several_topics: int = 0
    not_atomic: int = 0
    unknown: int = 0
    missing: dict[str, int] = field(default_factory=lambda: {"topics": 0, "language": 0, "region": 0})


def from_groups(tables: Mapping[str, pa.Table]) -> tuple[Summary, GroupCounts]:
    """Return a summary of the table `groups` (topics, language, region, members, messages per month), and its counts.

    tables: `groups`, the hierarchies `topics` and `languages`, and `nodes`; the topics of a group are a list, or text
        with semicolons
    """
    _require_tables(tables, "groups", "topics", "languages", "nodes")
    axes = tuple(Hierarchy.read(axis, tables[f"{axis}s"], f"{axis}s") for axis in AXES)
    nodes = Nodes.read(tables["nodes"])
    shape = count_shape(axes, len(nodes.regions), "groups")
    counts, rates, group_counts = np.zeros(shape), np.zeros(shape[:-1]), GroupCounts()
    for topics, language, region, members, messages in _records(tables["groups"]):
        nodes_of = _count_group(axes, nodes.regions, topics, language, region, group_counts)
        for topic in nodes_of[0]:
            counts[topic, nodes_of[1], nodes_of[2]] += members
            rates[topic, nodes_of[1]] += messages
    if not group_counts.taken:
        raise SummaryError(
            "empty summary: no group has topic, language and region", table="groups", groups=group_counts.groups
        )
    return _summary(axes, nodes, counts, rates), group_counts


def _summary(axes: tuple[Hierarchy, ...], nodes: Nodes, counts: Floats, rates: Floats) -> Summary:
    """Return the summary without regions that have no members."""
    used = np.flatnonzero(counts.reshape(-1, len(nodes.regions)).any(axis=0))
    regions = [nodes.regions[region] for region in used]
    return Summary(Interests(axes, tuple(regions), counts[..., used]), rates, nodes.with_regions(regions))


def _records(table: pa.Table) -> Any:
    members = number_column(table, "members", "groups", lowest=0.0)
    messages = number_column(table, "messages", "groups", lowest=0.0)
    languages, regions = (text_column(table, name, "groups", empty=True) for name in ("language", "region"))
    return zip(
        map(_tags, require_column(table, "topics", "groups").to_pylist()),
        languages,
        regions,
        members,
        messages,
        strict=True,
    )


def _tags(value: Any) -> list[str]:
    """Return the topics of a group.

    >>> _tags("Soccer; Tennis"), _tags(["Soccer"]), _tags(None)
    (['Soccer', 'Tennis'], ['Soccer'], [])
    """
    listed = value.split(";") if isinstance(value, str) else value or []
    return [tag for tag in (str(tag).strip() for tag in listed) if tag]


def _count_group(
    axes: tuple[Hierarchy, ...],
    regions: Sequence[str],
    topics: list[str],
    language: str | None,
    region: str | None,
    counts: GroupCounts,
) -> tuple[list[int], int, int]:
    """Return the atomic topics of a group, its language and its region; no topics if the group is ignored."""
    counts.groups += 1
    for name, value in (("topics", topics), ("language", language), ("region", region)):
        if not value:
            counts.missing[name] += 1
    known = [axes[0].index[topic] for topic in dict.fromkeys(topics) if topic in axes[0].index]
    atomic = [topic for topic in known if axes[0].fanout[topic] == 0]
    counts.not_atomic += len(known) - len(atomic)
    language_node = axes[1].index.get(language or "", -1)
    unknown = [
        bool(language) and (language_node < 0 or axes[1].fanout[language_node] > 0),
        bool(region) and region not in regions,
    ]
    counts.unknown += len(set(topics)) - len(known) + sum(unknown)
    if not atomic or not language or not region or any(unknown):
        return [], 0, 0
    counts.taken += 1
    counts.several_topics += len(atomic) > 1
    return atomic, language_node, list(regions).index(region)
