"""The tables of a summary from public records that each know only a part: a taxonomy, countries, groups, city pings.

The rules. Topics are those of the taxonomy. A language belongs to its family; where it is spoken follows from the
countries, which count alike and share themselves equally among their languages. A group has the topic whose name it
bears, and otherwise one dealt by chance; likewise its language where it tells none, as often as it is spoken; its
region is one where the language is spoken. Cities are nodes, in the region of their country. Chance depends on nothing
but the order of the groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from thinwire.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.places.latency_embedding_measured import measured
from thinwire_lab.workload.random_rows_randomness import Floats, chosen, uniforms

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
        city, region = _placed(label, sources, regions)
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


def _placed(label: str, sources: Sequence[str], regions: Mapping[str, str]) -> tuple[str, str]:
    """The city in a label and the region of its country; both empty where either is unknown.

    >>> _placed("New York United States, North America", ["New York", "York"], {"United States": "Americas"})
    ('New York', 'Americas')
    """
    body = label.rpartition(", ")[0]
    for city in sources:
        if body.startswith(f"{city} ") and body[len(city) + 1 :] in regions:
            return city, regions[body[len(city) + 1 :]]
    return "", ""
