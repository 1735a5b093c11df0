"""Coordinates from latencies: missing and uneven entries, and how close the distances come."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from thinwire.errors import ConfigError
from thinwire_lab.bench.embedding_bench import usual_mds
from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.places.latency_embedding import embed, vivaldi
from thinwire_lab.workload.places.latency_matrix import accuracy, completed, distances, symmetric

PLANETLAB = Path(__file__).parents[4] / "shared" / "data" / "netlatency" / "PlanetLabData_1.txt.gz"


def planted(count: int = 40, dimensions: int = 3) -> np.ndarray:
    return np.random.default_rng(5).normal(scale=50.0, size=(count, dimensions))


def test_points_that_exist_are_found_again() -> None:
    truth = distances(planted())
    assert accuracy(embed(truth, 3), truth).median < 0.01
    assert accuracy(vivaldi(truth, 3), truth).median < 0.1


def test_missing_entries_and_uneven_directions_do_little_harm() -> None:
    truth = distances(planted())
    dice = np.random.default_rng(1)
    measured = truth * dice.uniform(0.95, 1.05, size=truth.shape)
    measured[dice.random(truth.shape) < 0.3] = np.nan
    for way in (embed, vivaldi):
        assert accuracy(way(measured, 3), truth).median < 0.15


def test_what_is_missing_is_the_shortest_way_around() -> None:
    line = np.array([[0, 3, np.nan], [3, 0, 4], [np.nan, 4, 0]])
    assert completed(symmetric(line))[0, 2] == 7.0


def test_one_node_and_two_nodes_have_coordinates() -> None:
    assert embed(np.zeros((1, 1)), 2).shape == (1, 2)
    assert distances(embed(np.array([[0.0, 9], [9, 0]]), 2))[0, 1] == pytest.approx(9.0, rel=1e-6)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0, 1]], "as many rows as columns"),
        ([["a", "b"], ["c", "d"]], "latencies are numbers"),
        ([[0, 1, np.nan], [1, 0, np.nan], [np.nan, np.nan, 0]], "without any latency.*row=3"),
    ],
)
def test_an_invalid_matrix_is_rejected(matrix: list[list[object]], message: str) -> None:
    with pytest.raises(SummaryError, match=message):
        embed(np.array(matrix), 2)


def test_dimensions_have_limits() -> None:
    with pytest.raises(ConfigError, match="dimensions=0"):
        embed(np.zeros((2, 2)), 0)


@pytest.mark.skipif(not PLANETLAB.exists(), reason="the PlanetLab latencies are not here")
def test_real_latencies_are_approximated_better_than_by_metric_scaling() -> None:
    """On a fifth of the nodes: metric scaling of all of them takes half a minute, and the bench does that."""
    with gzip.open(PLANETLAB) as file:
        latencies = symmetric(np.loadtxt(file))[::5, ::5]
    ours, theirs = embed(latencies, 5), usual_mds(completed(latencies), 5)[1]
    assert accuracy(ours, latencies).median <= accuracy(theirs, latencies).median
