"""Benchmarks of the interval index: methods must agree, and a difference is reported."""

import numpy as np
import pytest

from thinwire_lab.bench import AREAS
from thinwire_lab.bench import threshold_index_bench as conformance_index
from thinwire_lab.bench.benchmark import Setting
from thinwire_lab.bench.threshold_index_bench import CASES, Case, rates
from thinwire_lab.overlay_sim.filters.published_filters import costs
from thinwire_lab.streams.threshold_streams import attack, jumping

SMALL = [Case(300, case.spread, case.stream) for case in CASES[-4:]]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_index_and_scan_find_the_same(case):
    compared, counting = conformance_index._compare_case(case, rounds=1)
    assert not compared.invalid
    assert compared.value > 0
    assert counting.required == ""


def test_a_scan_with_another_result_is_reported(monkeypatch):
    monkeypatch.setattr(conformance_index, "scan_counts", lambda values, thresholds, centres: 0)
    compared, _ = conformance_index._compare_case(SMALL[0], rounds=1)
    assert compared.holds is False


def test_cases_have_the_stated_number_of_thresholds():
    assert all(np.unique(case.thresholds()).size == case.count for case in CASES)


def test_rates_are_measured():
    few, none = rates(Setting(quick=True))
    assert few.value > 0
    assert "0.00 fire" in none.how
    assert none.value > 0


@pytest.mark.parametrize(
    ("stream", "mfd", "mcf"), [(attack, 36.4, 34.9), (jumping, 16.9, 23.7)], ids=["attack", "jumps"]
)
def test_schemes_have_known_costs(stream, mfd, mcf):
    """Filters evaluations a value, thresholds 1 to 63, against figures of another implementation."""
    found = {cost.scheme: cost for cost in costs(stream(5000, seed=5), range(1, 64))}
    assert found["SF"].evaluations == 63
    assert found["MFD"].evaluations == pytest.approx(mfd, rel=0.05)
    assert found["MCF"].evaluations == pytest.approx(mcf, rel=0.05)
    assert found["SRI"].fired == found["MCF"].fired < found["MFD"].fired


def test_the_area_has_the_benchmarks():
    assert "threshold_index_bench:BENCHMARKS" in AREAS["conformance"]
