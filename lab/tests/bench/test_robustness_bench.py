"""The benchmarks of robustness count violations and name a seed to repeat."""

import pytest

from thinwire_lab.bench import robustness_bench as bench
from thinwire_lab.bench.benchmark import Setting


class SmallSetting(Setting):
    def size(self, full, quick):
        return 3


BENCHMARKS = [*bench.WIRE, *bench.CLASSES, *bench.DICTIONARIES]


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_no_violation_at_small_sizes(benchmark):
    (row,) = benchmark.measure(SmallSetting())
    assert (row.value, row.holds) == (0, True)


def test_a_failed_seed_is_named(monkeypatch):
    found = {"seeds": 3, "counts": {"events": 7}, "failed": {"2": ["t off by 3"]}}
    monkeypatch.setattr(bench, "run_script", lambda kind, count: found)
    (row,) = bench.measure_worlds("services", SmallSetting())
    assert (row.value, row.holds) == (1, False)
    assert row.note == "to repeat: python tests/worlds/run_seeds.py services 2"


def test_outside_of_a_checkout_nothing_is_measured(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rows = [row for benchmark in BENCHMARKS for row in benchmark.measure(SmallSetting())]
    assert [row.value for row in rows] == [None] * 4
    assert all("run in a checkout" in row.note for row in rows)


@pytest.mark.slow
def test_no_violation_at_quick_sizes():
    assert all(row.holds for benchmark in BENCHMARKS for row in benchmark.measure(Setting(quick=True)))
