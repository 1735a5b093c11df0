"""The built-in summary: a population of subscribers like that of a large directory of discussion groups.

It is calibrated to what is published of one: 268 atomic topics by 141 languages; popularity so skewed that three
interests, all of them English and about business, hold at least 5 % of the members each; three regions; a language
tells much about the region and a topic hardly anything; Europe's share rises as popular interests are removed. Where no
figure is published, ours are: ten million members, half a million messages a month, 400 nodes in five dimensions.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from thinwire_lab.workload.builtin_summary_builtin_names import LANGUAGES, TOPICS, hierarchy_of
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.places.network_nodes_nodes import Nodes
from thinwire_lab.workload.random_rows import quotas
from thinwire_lab.workload.random_rows_randomness import Floats, Rows, normals, uniforms
from thinwire_lab.workload.summary import Summary

REGIONS = ("Asia", "US", "Europe")
MEMBERS, MESSAGES = 10_000_000, 500_000
SEED = 2007

# Of each family of languages, the share of its speakers in each region.
HOMES = {
    "Asian": (0.86, 0.08, 0.06),
    "European": (0.04, 0.16, 0.80),
    "African": (0.10, 0.25, 0.65),
    "American": (0.02, 0.78, 0.20),
    "Other": (0.34, 0.33, 0.33),
}
ENGLISH = (0.30, 0.58, 0.12)
LEADERS = ("Chinese Simplified", "Spanish", "Portuguese", "French", "German", "Arabic", "Indonesian", "Russian")
HOT = {"Business Services": 0.11, "Small Business": 0.08, "Consulting": 0.06}
"""topics whose English interests hold these shares of all members"""
NODES = (90, 180, 130)
# Centres of the regions, in milliseconds: about 150 from Asia to the US, 90 from there to Europe, 220 from end to end.
CENTRES = np.array([[-150.0, 0, 0, 0, 0], [0.0, 0, 0, 0, 0], [68.0, 59, 0, 0, 0]])
BREADTH = np.array([[40.0, 25, 12, 8, 5], [22.0, 14, 8, 5, 3], [18.0, 12, 7, 5, 3]])


@cache
def builtin() -> Summary:
    """The built-in summary; it is the same every time."""
    topics = Hierarchy.of("topic", hierarchy_of(TOPICS))
    languages = Hierarchy.of("language", hierarchy_of(LANGUAGES))
    members = _members(topics, languages)
    rates = _rates(members)
    return Summary(members, rates, _nodes())


def _members(topics: Hierarchy, languages: Hierarchy) -> Interests:
    """Popularity of topics and languages, a rough surface of chance over their pairs, and the hot interests on top."""
    pairs = np.multiply.outer(_by_rank(topics, (), 0.8), _by_rank(languages, ("English", *LEADERS), 1.25))
    rows = np.arange(pairs.size)
    jagged = pairs * np.exp(0.6 * normals(SEED, "pairs", rows, 1)).reshape(pairs.shape)
    shares = jagged / jagged.sum() * (1.0 - sum(HOT.values()))
    for name, share in HOT.items():
        shares[_leaf(topics, name), _leaf(languages, "English")] = share
    cells = shares[..., None] * _homes(topics, languages)
    counts = np.zeros((len(topics), len(languages), len(REGIONS)))
    counts[np.ix_(topics.leaves, languages.leaves)] = quotas(cells.ravel(), MEMBERS).reshape(cells.shape)
    return Interests((topics, languages), REGIONS, counts)


def _homes(topics: Hierarchy, languages: Hierarchy) -> Floats:
    """Of every pair the shares of the regions: the language decides, the topic adds a touch."""
    mixes = np.array([_mix(languages, int(leaf)) for leaf in languages.leaves])
    shape = (topics.leaves.size, 1, len(REGIONS))
    touch = np.exp(0.1 * normals(SEED, "touch", np.arange(topics.leaves.size), len(REGIONS))).reshape(shape)
    homes = mixes * touch
    return np.asarray(homes / homes.sum(axis=-1, keepdims=True))


def _mix(languages: Hierarchy, leaf: int) -> Floats:
    """Of one language the shares of the regions, scattered about those of its family."""
    if languages.ids[leaf] == "English":
        return np.array(ENGLISH)
    family = languages.ids[languages.parents[languages.parents[leaf]]]
    mix = np.array(HOMES[family]) * np.exp(0.5 * normals(SEED, "homes", np.array([leaf]), len(REGIONS))[0])
    return np.asarray(mix / mix.sum())


def _by_rank(axis: Hierarchy, leaders: tuple[str, ...], exponent: float) -> Floats:
    """Weights that fall with the rank (Zipf); leaders have the first ranks, chance deals the others."""
    ranks = np.argsort(np.argsort(uniforms(SEED, axis.name, axis.leaves))).astype(np.float64) + len(leaders)
    for rank, name in enumerate(leaders):
        ranks[_leaf(axis, name)] = rank
    return np.asarray((ranks + 1.0) ** -exponent)


def _leaf(axis: Hierarchy, name: str) -> int:
    """The place of a node among the atomic ones."""
    return int(np.searchsorted(axis.leaves, axis.places[name]))


def _rates(members: Interests) -> Floats:
    """Messages a month: large groups talk more, though less so per head, and some talk more than others."""
    popularity = members.popularity
    rows: Rows = np.arange(popularity.size)
    talk = popularity**0.85 * np.exp(0.8 * normals(SEED, "messages", rows, 1)).reshape(popularity.shape)
    return np.asarray(quotas(talk.ravel(), MESSAGES).reshape(popularity.shape).astype(np.float64))


def _nodes() -> Nodes:
    region = np.repeat(np.arange(len(REGIONS)), NODES)
    steps = normals(SEED, "nodes", np.arange(region.size), CENTRES.shape[1])
    return Nodes(REGIONS, region, CENTRES[region] + BREADTH[region] * steps)
