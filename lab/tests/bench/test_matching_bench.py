"""Benchmarks of content matching at a small size."""

from thinwire.filters.rectangle_index import RectangleIndex
from thinwire_lab.bench.benchmark import Setting
from thinwire_lab.bench.matching_bench import BENCHMARKS, METHODS, NOISE, rectangles


def test_every_method_finds_all_matches():
    for method in METHODS:
        found = method.match(300, 200)
        assert not found.wrong
        assert found.found > 0
        assert found.events == 200


def test_moved_rectangles_are_all_different():
    as_drawn, moved = rectangles(300, 50), rectangles(300, 50, noise=NOISE)
    assert as_drawn.distinct < moved.distinct == 300
    assert moved.found > as_drawn.found


def test_an_index_with_missing_matches_is_reported(monkeypatch):
    match = RectangleIndex.match_batches
    monkeypatch.setattr(
        RectangleIndex, "match_batches", lambda self, points: ((e[1:], f[1:]) for e, f in match(self, points))
    )
    assert rectangles(300, 50).wrong > 0


def test_a_quick_run_gives_a_row_each():
    rows = [row for benchmark in BENCHMARKS for row in benchmark.measure(Setting(quick=True))]
    assert [row.low for row in rows] == [50_000, None, None, 50_000]
    assert all(row.value and not row.invalid for row in rows)
    assert all("matches each" in row.how for row in rows)
