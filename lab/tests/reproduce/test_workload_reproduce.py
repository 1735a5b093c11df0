"""The figures of the workload paper: every statement is checked on the built-in summary, and drawn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from thinwire.cli.main import main
from thinwire.errors import ConfigError
from thinwire_lab.reproduce.workload.workload_figures import FIGURES, effective_interests, majorities, select_figures
from thinwire_lab.workload.assignment.assignment_costs import AssignmentCosts
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.workload_pictures import (
    pareto_optimal,
    plot_heat_maps,
    plot_information,
    plot_locations,
    plot_pareto,
    region_shares,
)


@pytest.mark.parametrize("number", sorted(FIGURES))
def test_the_builtin_summary_has_the_published_shape(number: int) -> None:
    sheet = FIGURES[number].sheet(number, builtin().members, [])
    assert sheet.rows
    assert sheet.notes[1].endswith(": as published")


def test_another_population_does_not_have_it() -> None:
    axes = tuple(Hierarchy.of(name, [("all", None), ("a", "all"), ("b", "all")]) for name in ("topic", "language"))
    counts = np.zeros((3, 3, 2))
    counts[1:, 1:] = 1.0
    flat = Interests(axes, ("Asia", "Europe"), counts)
    for number, figure in FIGURES.items():
        assert figure.sheet(number, flat, []).notes[1].endswith(": NOT as published"), number
    assert effective_interests(flat).tolist() == [4.0, 4.0]
    assert majorities(flat, axes[0]) == [0, 0]
    assert region_shares(flat, axes[1]).tolist() == [[0.5, 0.5]] * 2


def test_figures_are_chosen_by_number() -> None:
    assert select_figures(None) == [1, 2, 3, 4, 5, 6]
    assert select_figures("4") == [4]
    with pytest.raises(ConfigError, match="unknown figure"):
        select_figures("9")


def test_the_command_draws_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert main(["reproduce", "workload", "--figure", "4", "--out", str(tmp_path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["figure 4"]
    assert shown["rows"][0]["Europe"] < shown["rows"][-1]["Europe"]
    assert {Path(picture).name for picture in shown["pictures"]} == {"figure-4.png", "figure-4.svg"}
    assert all(Path(picture).stat().st_size > 1000 for picture in shown["pictures"])


def test_one_axis_one_region_and_one_dimension_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all")])
    one = Interests((axis,), ("here",), np.array([[0.0], [3.0], [1.0]]))
    made = plot_heat_maps(one, "interests", tmp_path / "interests")
    made += plot_information({"as they are": {"topic": 0.0}}, tmp_path / "told")
    made += plot_locations(
        np.arange(5.0)[:, None], np.zeros(5, dtype=np.int64), ["here"], np.zeros((0, 1)), tmp_path / "at"
    )
    made += plot_pareto({"proximity": AssignmentCosts(1, 0.0, 1, 2, 3, 1)}, tmp_path / "costs")
    assert len({path.name for path in made}) == 8


def test_pareto_dominance() -> None:
    costs = {
        name: AssignmentCosts(0, wasted, 0, p90, 0, 1) for name, wasted, p90 in [("a", 2, 5), ("b", 2, 4), ("c", 2, 4)]
    }
    assert pareto_optimal(costs) == ["b", "c"]
