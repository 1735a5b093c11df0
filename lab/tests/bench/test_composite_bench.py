"""Benchmarks of composite subscriptions: every dimension has its rows, and schemes must deliver the same."""

from thinwire_lab.bench import AREAS, find_benchmarks
from thinwire_lab.bench.benchmark import Setting
from thinwire_lab.bench.conformance_bench import DIMENSIONS, MIN_RATIOS, composite_rows


def test_the_watched_predicate_has_a_required_result_for_two_dimensions():
    rows = {row.name: row for row in composite_rows(Setting(quick=True))}
    watched = {d: rows[f"composite, dimension {d}: watched against chaining"] for d in DIMENSIONS}
    assert {d: row.low for d, row in watched.items() if row.low} == MIN_RATIOS == {2: 1.7, 5: 4.0}
    assert not any(row.invalid for row in rows.values())
    assert watched[5].value > watched[2].value > 1


def test_the_area_runs_all_benchmarks():
    names = [benchmark.name for benchmark in find_benchmarks("conformance")]
    assert len(AREAS["conformance"]) == 4
    assert names == [
        "interval index: rates",
        "interval index: against a scan",
        "messages on Chord, recorded bars",
        "simulator",
        "a large ring",
        "composite",
        "live",
    ]
