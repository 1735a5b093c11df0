"""The benchmark of embeddings at a small size, beside metric scaling."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from thinwire_lab.bench.benchmark import Setting
from thinwire_lab.bench.embedding_bench import MEASURED, embedding, network, usual_mds
from thinwire_lab.workload.places.latency_matrix import distances

DATA = Path(__file__).parents[4] / "shared" / "data"


def test_metric_scaling_finds_points_again() -> None:
    truth = distances(np.random.default_rng(5).normal(size=(12, 2)))
    _, found = usual_mds(truth, 2)
    assert np.abs(distances(found) - truth).max() < 0.2


def test_embedding_is_no_worse_than_metric_scaling() -> None:
    rows = {row.name: row for row in embedding(Setting(quick=True))}
    error = rows["embedding: median relative error to metric scaling's"]
    assert error.holds
    assert "built-in nodes" in error.how
    assert rows["embedding: CPU time to metric scaling's"].value > 0  # type: ignore[operator]


@pytest.mark.skipif(not (DATA / MEASURED).exists(), reason="the PlanetLab latencies are not here")
def test_measured_latencies_are_taken_where_they_are() -> None:
    name, latencies = network(Setting(data=DATA))
    assert "PlanetLab" in name
    assert latencies.shape == (490, 490)
