"""The figures at small sizes: the published method step by step, and equality of sent and received values."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import ConfigError
from thinwire.schema import Property, Schema
from thinwire_lab.bench.building_bench import compare_with_original
from thinwire_lab.reproduce.experiment import find
from thinwire_lab.reproduce.virtual_events import virtual_event_figures as experiment
from thinwire_lab.reproduce.virtual_events.virtual_event_figures import Changes

ROOMS = Schema("rooms", [Property("at", "integer", "header"), Property("t", "number", step="0.1")])


def test_only_changes_above_the_tolerance_are_sent():
    changes = Changes(ROOMS, tolerance=1.0)
    readings = [(1, 20.0), (2, 21.0), (3, 21.1), (3, 20.5)]
    partials = [changes.reduce({"at": at, "t": heat}) for at, heat in readings]
    assert partials == [{"at": 1, "t": 20.0}, {"at": 2}, {"at": 3, "t": 21.1}, {}]


@given(st.lists(st.integers(-50, 50)), st.sampled_from([0.0, 0.5, 1.0, 2.5]))
def test_the_receiver_stays_within_the_tolerance(ticks, tolerance):
    changes, picture = Changes(ROOMS, tolerance), {}
    for at, tick in enumerate(ticks):
        picture |= changes.reduce({"at": at, "t": tick / 10})
        assert picture["at"] == at
        assert abs(picture["t"] - tick / 10) <= tolerance


def test_figure_5_agrees_with_the_calibration():
    sizes = experiment.figure_5(200)
    assert list(sizes) == list(experiment.PUBLISHED)
    assert list(sizes.values()) == [row.measured for row in compare_with_original(200)[:4]]


def test_figure_6_has_four_stages_in_each_format():
    stages = {stage.format: stage for stage in experiment.figure_6(300)}
    assert list(stages) == ["JSON", "JSON+gzip", "Avro", "thinwire compact, last", "thinwire compact, auto"]
    for stage in stages.values():
        raw, first, second, reconstructed = stage.per_event
        assert second <= first < raw / 3
        assert reconstructed == pytest.approx(raw, rel=0.1)
    assert stages["JSON"].totals[1] / 300 == compare_with_original(300)[4].measured
    assert stages["thinwire compact, last"].totals[1] < stages["JSON"].totals[1]


def test_pictures_can_be_opened(tmp_path):
    plots = pytest.importorskip("thinwire_lab.reproduce.figure_plots")
    pytest.importorskip("matplotlib")
    stages = [experiment.Stages("JSON", 10, [8850, 700, 500, 8850])]
    pictures = [*plots.figure_5({"JSON": 885.0, "Avro": 380.0}, tmp_path), *plots.figure_6(stages, tmp_path)]
    assert [path.name for path in pictures] == ["figure-5.png", "figure-5.svg", "figure-6.png", "figure-6.svg"]
    for path in pictures:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_unknown_experiments_are_refused():
    with pytest.raises(ConfigError, match="virtual-events"):
        find("figure-17")
