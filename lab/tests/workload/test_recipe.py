"""Drawing: the same rows for any number of partitions, rare interests included, correct locations and events."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thinwire.errors import ConfigError
from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.interests import Interests, correlations
from thinwire_lab.workload.interests.transformations import intervals, remove_hot
from thinwire_lab.workload.places.network_nodes import LocationSampler, Nodes, place_brokers
from thinwire_lab.workload.random_rows import choose_weighted, normals, quotas, uniforms
from thinwire_lab.workload.recipe import EventSource, Recipe, WorkloadPlan
from thinwire_lab.workload.subscription_sample import SubscriptionSampler, find_missed
from thinwire_lab.workload.summary import Summary, from_groups

WAYS = [
    Recipe(subscriptions=3_000, events=3_000, brokers=9, seed=1),
    Recipe(subscriptions=3_000, events=3_000, brokers=9, seed=2, location="box", noise=0.5, sampling="plain"),
    Recipe(subscriptions=3_000, events=3_000, brokers=9, seed=3, location="hull", diffusion=0.7, generalise="shared"),
]


def small() -> dict[str, pa.Table]:
    return {
        "topics": pa.table({"id": ["all", "a", "b"], "parent": [None, "all", "all"]}),
        "languages": pa.table({"id": ["any", "x", "y"], "parent": [None, "any", "any"]}),
        "members": pa.table(
            {"topic": ["a", "b"], "language": ["x", "y"], "region": ["north", "south"], "count": [30, 10]}
        ),
        "messages": pa.table({"topic": ["a"], "language": ["x"], "per_month": [3]}),
        "nodes": pa.table({"region": ["north", "south"], "u": [0.0, 9.0], "v": [1.0, 2.0]}),
    }


def drawn_counts(interests: Interests, sampler: SubscriptionSampler, rows: int) -> Interests:
    counts = np.zeros_like(interests.counts)
    np.add.at(counts, sampler.draw(np.arange(rows)), 1.0)
    return interests.with_counts(counts)


@pytest.mark.parametrize("recipe", WAYS)
@pytest.mark.parametrize("parts", [1, 4, 7])
def test_rows_do_not_depend_on_the_partitions(recipe: Recipe, parts: int) -> None:
    plan = WorkloadPlan(builtin(), recipe)
    rows = np.arange(700)
    for draw in (plan.subscriptions, plan.events):
        complete = draw(rows)
        pieces = [draw(piece) for piece in np.array_split(rows, parts)]
        assert pa.Table.from_batches(pieces).combine_chunks() == pa.Table.from_batches([complete])


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.integers(0, 10_000))
@example([5e-324], 1)
@example([5e-324, 1e-320], 10_000)
def test_quotas_add_up_and_are_off_by_less_than_one(weights: list[float], total: int) -> None:
    numbers = np.array(weights)
    counts = quotas(numbers, total)
    if numbers.sum() > 0:
        assert counts.sum() == total
        shares = [Fraction(weight) * total / sum(map(Fraction, weights)) for weight in weights]
        assert max(abs(int(count) - share) for count, share in zip(counts, shares, strict=True)) < 1 + Fraction("1e-6")


def test_numbers_by_chance_are_even_and_independent() -> None:
    rows = np.arange(50_000)
    first, second = uniforms(1, "a", rows), uniforms(1, "b", rows)
    assert np.histogram(first, bins=10, range=(0, 1))[0] == pytest.approx(5_000, abs=400)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.03
    drawn = normals(1, "c", rows, 3)
    assert np.abs(drawn.mean(axis=0)).max() < 0.03
    assert np.abs(np.cov(drawn.T) - np.eye(3)).max() < 0.04


@given(st.lists(st.floats(0, 10), min_size=1, max_size=20).filter(any), st.floats(0, 1, exclude_max=True))
def test_what_has_no_weight_is_never_chosen(weights: list[float], at: float) -> None:
    assert weights[int(choose_weighted(np.array(weights), np.array([at]))[0])] > 0


def test_stratified_sampling_keeps_rare_interests_and_the_relation_of_languages_to_places() -> None:
    members = builtin().members
    expected = correlations(members)["language"]
    lost = {}
    for plain in (False, True):
        found = drawn_counts(members, SubscriptionSampler(members, 20_000, seed=1, plain=plain), 20_000)
        lost[plain] = find_missed(members, found)
        assert found.counts.sum() == 20_000
        assert (members.counts[found.counts > 0] > 0).all()
        if not plain:
            assert correlations(found)["language"] == pytest.approx(expected, rel=0.05)
    assert lost[False].interests < lost[True].interests == pytest.approx(lost[True].plain, rel=0.02)
    assert found.popularity.ravel()[lost[True].popular].sum() == 0
    assert (np.diff(members.popularity.ravel()[lost[True].popular]) <= 0).all()


def test_every_stratum_gets_its_share() -> None:
    summary = Summary.read(small())
    drawn = drawn_counts(summary.members, SubscriptionSampler(summary.members, 8, seed=3, strata=2), 8)
    assert drawn.counts[1, 1].tolist() == [6, 0]
    assert drawn.counts[2, 2].tolist() == [0, 2]


def test_the_builtin_summary_has_the_published_properties() -> None:
    members = builtin().members
    assert [axis.leaves.size for axis in members.axes] == [268, 141]
    popularity = members.popularity
    top = np.argsort(-popularity.ravel())[:3]
    names = [
        tuple(a.ids[n] for a, n in zip(members.axes, np.unravel_index(t, popularity.shape), strict=True)) for t in top
    ]
    assert names == [("Business Services", "English"), ("Small Business", "English"), ("Consulting", "English")]
    assert (popularity.ravel()[top] >= 0.05 * popularity.sum()).all()
    expected = correlations(members)
    assert expected["language"] > 5 * expected["topic"]
    europe = [remove_hot(members, top).mix[2] for top in (0, 3, 30, 300)]
    assert europe == sorted(europe)


def test_a_summary_reads_back_from_its_tables() -> None:
    before = builtin()
    after = Summary.read(before.tables())
    assert (after.members.counts == before.members.counts).all()
    assert (after.rates == before.rates).all()
    assert (after.nodes.points == before.nodes.points).all()


def test_regions_keep_their_numbers_when_a_summary_reads_back() -> None:
    """Members come back in the order of the hierarchies, without those that are none."""
    rows = {"topic": ["b", "b", "a"], "language": ["y"] * 3, "region": ["south", "west", "north"], "count": [1, 0, 2]}
    nodes = {"region": ["north", "south", "west"], "u": [0.0, 1.0, 2.0]}
    before = Summary.read({**small(), "members": pa.table(rows), "nodes": pa.table(nodes)})
    after = Summary.read(before.tables())
    assert after.members.regions == before.members.regions == ("south", "west", "north")
    assert (after.members.counts == before.members.counts).all()
    assert (after.nodes.region == before.nodes.region).all()


def test_latencies_replace_missing_coordinates() -> None:
    tables = small()
    del tables["nodes"]
    tables["latencies"] = pa.table({"region": ["north", "south"], "a": [0.0, 8.0], "b": [12.0, None]})
    north, south = Summary.read(tables).nodes.points
    assert np.linalg.norm(north - south) == pytest.approx(10.0, rel=1e-6)
    tables["latencies"] = pa.table({"region": ["north", "south"], "a": [0.0, 8.0]})
    with pytest.raises(SummaryError, match=r"as many columns of latencies as rows.*table='latencies'"):
        Summary.read(tables)


def test_places_are_inside_their_regions() -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [50.0, 50.0], [51.0, 52.0]])
    nodes = Nodes(("a", "b"), np.array([0, 0, 0, 1, 1]), points)
    rows, region = np.arange(400), np.arange(400) % 2
    for way in ("box", "hull", "near"):
        drawn = LocationSampler(nodes, way, spread=0.1).draw(1, rows, region)
        margin = 1.0 if way == "near" else 1e-9
        for number in (0, 1):
            here, own = drawn[region == number], nodes.points_in(number)
            assert (here >= own.min(axis=0) - margin).all()
            assert (here <= own.max(axis=0) + margin).all()
    hull = LocationSampler(nodes, "hull").draw(1, rows, np.zeros(400, dtype=np.int64))
    assert (hull.sum(axis=1) <= 1 + 1e-9).all()


def test_brokers_are_nodes_until_nodes_run_out() -> None:
    nodes = Nodes(("a", "b"), np.array([0, 0, 1]), np.array([[0.0], [1.0], [9.0]]))
    brokers = place_brokers(nodes, np.array([0.5, 0.5]), 4, 1, LocationSampler(nodes, "near", 0.1))
    assert brokers.region.tolist() == [0, 0, 1, 1]
    assert sorted(brokers.points[:2, 0]) == [0.0, 1.0]
    assert brokers.points[2, 0] == 9.0
    assert brokers.points[3, 0] != 9.0


def test_events_follow_rates_and_reach_into_gaps() -> None:
    axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all")])
    rates = np.array([0.0, 30.0, 10.0])
    ends = intervals(axis)
    sharp = EventSource([axis], rates, 1, bandwidth=0.0).draw(np.arange(4_000))[:, 0]
    inside = [np.mean((sharp >= ends[n, 0]) & (sharp <= ends[n, 1])) for n in (1, 2)]
    assert inside == pytest.approx([0.75, 0.25], abs=0.03)
    smooth = EventSource([axis], rates, 1, bandwidth=0.5).draw(np.arange(4_000))[:, 0]
    gap = (smooth > ends[1, 1]) & (smooth < ends[2, 0])
    assert 0.05 < gap.mean() < 0.5
    assert smooth.min() >= 0
    assert smooth.max() <= 1


def _changed(table: str, **columns: object) -> dict[str, pa.Table]:
    found = small()
    for name, values in columns.items():
        index = found[table].column_names.index(name)
        found[table] = found[table].set_column(index, name, pa.array(values))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (_changed("members", count=[30, -1]), "below 0.*table='members', column='count', row=2, value=-1"),
        (_changed("members", count=[None, 1]), "not a finite number.*table='members', column='count', row=1"),
        (_changed("members", topic=["a", "all"]), "atomic.*table='members', column='topic', row=2"),
        (_changed("members", topic=["a", "z"]), "no such row in topics.*column='topic', row=2, value='z'"),
        (
            _changed("members", region=["north", "west"]),
            "region without nodes.*table='members', column='region', row=2, value='west'",
        ),
        (_changed("messages", per_month=[-3]), "below 0.*table='messages', column='per_month', row=1"),
        (_changed("nodes", u=["0", "east"]), "not a number.*table='nodes', column='u', row=2, value='east'"),
        ({**small(), "members": small()["members"].slice(0, 0)}, "empty summary"),
        ({**small(), "nodes": small()["nodes"].select(["region"])}, "columns of coordinates"),
        ({**small(), "nodes": small()["nodes"].slice(0, 0)}, "at least one node.*table='nodes'"),
        ({**small(), "topics": small()["topics"].slice(0, 0)}, "at least one row.*table='topics'"),
        (_changed("nodes", u=[0.0, float("nan")]), "not a finite number.*table='nodes', column='u', row=2"),
        (_changed("members", count=["many", "3"]), "not a number.*table='members', column='count', row=1"),
        (_changed("members", region=["north", None]), "missing.*table='members', column='region', row=2"),
        (_changed("messages", language=["z"]), "no such row in languages.*table='messages', column='language', row=1"),
        (_changed("topics", parent=[None, "all", "nowhere"]), "an orphan.*table='topics', column='parent', row=3"),
        (_changed("languages", parent=[None, "y", "x"]), "a cycle.*table='languages', column='parent', row=2"),
        ({name: table for name, table in small().items() if name != "messages"}, "table is missing.*messages"),
    ],
)
def test_a_bad_summary_names_table_column_and_row(tables: dict[str, pa.Table], message: str) -> None:
    with pytest.raises(SummaryError, match=message):
        Summary.read(tables)


@pytest.mark.parametrize(
    "wrong",
    [
        {"diffusion": 1.5},
        {"fraction": -1.0},
        {"noise": 2.0},
        {"location": "moon"},
        {"subscriptions": -1},
        {"generalise": "all"},
        {"sampling": "none"},
    ],
)
def test_a_recipe_outside_its_limits_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Recipe(**wrong)  # type: ignore[arg-type]


def test_more_strata_than_interests_are_refused() -> None:
    with pytest.raises(ConfigError, match="more strata than"):
        WorkloadPlan(Summary.read(small()), Recipe(strata=10, generalise="none"))


def test_latencies_that_are_no_numbers_report_their_location() -> None:
    tables = small()
    del tables["nodes"]
    tables["latencies"] = pa.table({"region": ["north", "south"], "a": ["0", "far"], "b": ["1", "0"]})
    with pytest.raises(SummaryError, match=r"not a number.*table='latencies', column='a', row=2, value='far'"):
        Summary.read(tables)


def test_members_that_are_all_zero_cannot_be_drawn_from() -> None:
    empty = Summary.read(_changed("members", count=[0, 0]))
    with pytest.raises(SummaryError, match=r"no subscribers to draw from.*table='members', column='count'"):
        WorkloadPlan(empty, Recipe(generalise="none"))


def test_groups_make_a_summary_and_what_was_left_out_is_counted() -> None:
    groups = {
        "topics": ["a;b", "all", None, "a", "a;strange", "b"],
        "language": ["x", "x", "y", None, "y", "y"],
        "region": ["north", "north", "south", "north", "south", "mars"],
        "members": [10, 5, 5, 5, 7, 1],
        "messages": [2, 1, 1, 1, 4, 1],
    }
    tables = {**small(), "groups": pa.table(groups)}
    summary, tally = from_groups(tables)
    assert (tally.groups, tally.taken, tally.several_topics, tally.not_atomic, tally.unknown) == (6, 2, 1, 1, 2)
    assert tally.missing == {"topics": 1, "language": 1, "region": 0}
    assert summary.members.counts.sum() == 27
    assert summary.rates[1].tolist() == [0, 2, 4]
    assert Summary.read(summary.tables()).members.counts.sum() == 27
