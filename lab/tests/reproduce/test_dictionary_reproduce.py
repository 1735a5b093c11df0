"""Tables and figures of the thesis: all are listed, small ones are made, pictures are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from thinwire.errors import ConfigError
from thinwire_lab.reproduce.dictionaries import thesis_items as dictionaries
from thinwire_lab.reproduce.dictionaries.dictionary_measures import decay_cell, history_cell, size_cell, usage_cell
from thinwire_lab.reproduce.dictionaries.thesis_sheet import ThesisScale, best_of, best_published

FORM = b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.%d, "state": "ok", "note": "nothing to report"}'


def one_by_one(
    function: Callable[..., Mapping[str, Any]],
    cells: Sequence[dict[str, Any]],
    weight: Callable[[dict[str, Any]], float],
) -> list[Mapping[str, Any]]:
    """Run cells as Spark does, with JSON as input and output."""
    assert all(weight(cell) > 0 for cell in cells)
    return [json.loads(json.dumps(function(**json.loads(json.dumps(cell))))) for cell in cells]


@pytest.fixture
def scale(tmp_path: Path) -> ThesisScale:
    folder = tmp_path / "streams"
    folder.mkdir()
    rows = [FORM % (n % 9, n % 7, n * 7 % 31, n % 10) for n in range(600)]
    for name in ("debs-csv", "debs-json"):
        (folder / f"{name}.txt").write_bytes(b"\n".join(rows))
    return ThesisScale(quick=True, data=str(folder))


@pytest.mark.parametrize("number", ["5.2.1", "5.4.2", "5.4.3", "6.2.1"])
def test_tables_are_compared_with_the_thesis(scale: ThesisScale, tmp_path: Path, number: str) -> None:
    ((_, item),) = dictionaries.select_items(table=number)
    sheet = item.make(scale, one_by_one, tmp_path)
    assert number in sheet.title
    assert sheet.rows
    assert all(len(row) == len(sheet.columns) for row in sheet.rows)
    assert len(set(sheet.columns)) == len(sheet.columns)
    assert any("thesis" in column for column in sheet.columns)
    assert json.dumps(sheet.document)


@pytest.mark.slow
@pytest.mark.parametrize("number", sorted(dictionaries.TABLES))
def test_every_table(scale: ThesisScale, tmp_path: Path, number: str) -> None:
    ((_, item),) = dictionaries.select_items(table=number)
    assert item.make(scale, one_by_one, tmp_path).rows


@pytest.mark.slow
@pytest.mark.parametrize("number", sorted(dictionaries.FIGURES))
def test_every_figure(scale: ThesisScale, tmp_path: Path, number: str) -> None:
    pytest.importorskip("matplotlib")
    ((_, item),) = dictionaries.select_items(figure=number)
    sheet = item.make(scale, one_by_one, tmp_path)
    assert sheet.rows
    assert [path.suffix for path in sheet.pictures[:2]] == [".png", ".svg"]
    assert all(path.stat().st_size > 1000 for path in sheet.pictures)


def test_a_figure_is_drawn(scale: ThesisScale, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ((_, item),) = dictionaries.select_items(figure="5.2.2")
    sheet = item.make(scale, one_by_one, tmp_path)
    assert [path.name for path in sheet.pictures] == ["figure-5.2.2.png", "figure-5.2.2.svg"]


def test_a_map_of_narrow_links_is_shown_beside_the_thesis(scale: ThesisScale, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ((_, item),) = dictionaries.select_items(figure="5.5.3")
    sheet = item.make(scale, one_by_one, tmp_path)
    rows = {row[:3]: row[3:] for row in sheet.rows}
    theirs, ours, deflated = rows["1mbit", 8, 1]
    assert theirs == 2.1
    assert 1 < deflated < ours
    assert rows["1mbit", 1, 1][1] == pytest.approx(1.1, abs=0.15), "one publisher waits for answers, not for bytes"
    assert [path.name for path in sheet.pictures] == ["figure-5.5.3-1mbit.png", "figure-5.5.3-1mbit.svg"]


def test_formats_come_nearer_with_a_dictionary(tmp_path: Path) -> None:
    ((_, item),) = dictionaries.select_items(table="formats")
    sheet = item.make(ThesisScale(quick=True), one_by_one, tmp_path)
    assert [row[0] for row in sheet.rows] == ["taxi-csv", "taxi-json", "taxi-xml", "taxi-pb", "largest to smallest"]
    _, _, plain, _, deflated, _, packed = sheet.rows[-1]
    assert plain > deflated > packed


def test_missing_parts_are_reported() -> None:
    with pytest.raises(ConfigError, match="unknown table"):
        dictionaries.select_items(table="9.9.9")
    with pytest.raises(ConfigError, match="unknown figure"):
        dictionaries.select_items(figure="5.5.9")


def test_settings_are_chosen_with_one_publisher_and_reused() -> None:
    def row(settings: int, topology: str, saved: float) -> dict[str, Any]:
        return {"stream": "s", "policy": "single", "settings": settings, "topology": topology, "reduction": saved}

    rows = [row(1, "1:1", 50.0), row(1, "1,000:1", 40.0), row(2, "1:1", 60.0), row(2, "1,000:1", 10.0)]
    assert best_of(rows)["s", "single", "1,000:1"]["reduction"] == 10.0
    assert best_published(rows)["s", "1,000:1"]["reduction"] == 40.0


def test_larger_dictionaries_and_longer_histories_are_measured(scale: ThesisScale) -> None:
    small, large = (size_cell("debs-json", times, scale.data, history=400) for times in (3, 21))
    assert large["bytes"] > small["bytes"]
    assert 40 < small["saved"] < 100
    assert history_cell("debs-json", 200, scale.data, multiplier=8)["kB"] > 10
    used = usage_cell("debs-json", 3, scale.data, history=400)
    assert 0 < used["used"] <= 100
    assert len(used["counts"]) > 100
    assert decay_cell("debs-json", scale.data, every=20, samples=10)["samples"] > 3
