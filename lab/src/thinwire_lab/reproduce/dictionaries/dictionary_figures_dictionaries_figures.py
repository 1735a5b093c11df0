"""Figures of the thesis about single dictionaries: history, size, usage, likeness; drawn, and printed as drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from thinwire.analysis.analysis_cells import Run
from thinwire.dictionaries.policies import fixed_rate, single
from thinwire_lab.reproduce.dictionaries import thesis_numbers_dictionaries_published as published
from thinwire_lab.reproduce.dictionaries import thesis_sheet_dictionaries_plots as plots
from thinwire_lab.reproduce.dictionaries.dictionary_measures_measures import (
    history_cell,
    similar_cell,
    size_cell,
    usage_cell,
)
from thinwire_lab.reproduce.dictionaries.thesis_sheet import configured_rows
from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_sheet import SAVED, Scale, Sheet, swept

SIZE = "size of the dictionary, mean messages"


def figure_4_3_1(scale: Scale, run: Run, out: Path) -> Sheet:
    rows = configured_rows(scale, run, scale.streams(list(published.TABLE_4_3_1)))
    pictures, table = [], []
    for stream in dict.fromkeys(row["stream"] for row in rows):
        cells = {
            (row["settings"]["histories"][0], row["settings"]["multipliers"][0]): float(row["reduction"])
            for row in rows
            if row["stream"] == stream
        }
        title = f"{stream}: bytes saved in %, replaced every 5500 messages (figure 4.3.1)"
        pictures += plots.heat(out / f"figure-4.3.1-{stream}", title, cells, ("history, messages", SIZE))
        table += [(stream, *key, saved) for key, saved in cells.items()]
    return Sheet("figure 4.3.1: history and size", ("stream", "history", "multiplier", SAVED), table, (), pictures)


def figure_4_3_3(scale: Scale, run: Run, out: Path) -> Sheet:
    found = _sizes(scale, run)
    columns = ("stream", "multiplier", "bytes", "pack us", "read us")
    table = [tuple(figures[name] for name in columns) for figures in found]
    series = {
        f"{s}, {way}": _line(found, s, "multiplier", f"{way} us") for s in _names(found) for way in ("pack", "read")
    }
    title = "CPU a message by the size of the dictionary (figures 4.3.3, 5.2.3)"
    pictures = plots.lines(out / "figure-4.3.3", title, series, (SIZE, "us a message"), log=True)
    return Sheet("figures 4.3.3 and 5.2.3: CPU by size", columns, table, (), pictures)


def figure_5_2_1(scale: Scale, run: Run, out: Path) -> Sheet:
    found = _histories(scale, run)
    columns = ("stream", "kB", "cpu seconds")
    table = [tuple(figures[name] for name in columns) for figures in found]
    series = {stream: _line(found, stream, "kB", "cpu seconds") for stream in _names(found)}
    title = "CPU to make a dictionary (figure 5.2.1)"
    pictures = plots.lines(out / "figure-5.2.1", title, series, ("history, kB", "CPU seconds"), dots=True)
    return Sheet("figure 5.2.1: sampling time", columns, table, (), pictures)


def figure_5_2_2(scale: Scale, run: Run, out: Path) -> Sheet:
    found = [figures for figures in _histories(scale, run) if figures["saved"] is not None]
    columns = ("stream", "history", "saved")
    table = [tuple(figures[name] for name in columns) for figures in found]
    series = {stream: _line(found, stream, "history", "saved") for stream in _names(found)}
    title = "Bytes saved on later messages by history (figure 5.2.2)"
    pictures = plots.lines(out / "figure-5.2.2", title, series, ("history, messages", SAVED), log=True)
    return Sheet("figure 5.2.2: history", columns, table, (), pictures)


def figure_5_2_4(scale: Scale, run: Run, out: Path) -> Sheet:
    found = _used(scale, run, list(published.TABLE_5_2_1)[:: 4 if scale.quick else 1])
    columns = ("stream", "multiplier", "used", "referred", "internal")
    table = [tuple(figures[name] for name in columns) for figures in found]
    series = {stream: _line(found, stream, "multiplier", "used") for stream in _names(found)}
    series["thesis, mean"] = (list(published.TABLE_5_2_1), [used for used, _ in published.TABLE_5_2_1.values()])
    title = "How much of a dictionary is used (figure 5.2.4)"
    pictures = plots.lines(out / "figure-5.2.4", title, series, (SIZE, "used, %"), log=True)
    return Sheet("figure 5.2.4: usage by size", columns, table, (), pictures)


def figure_5_2_5(scale: Scale, run: Run, out: Path) -> Sheet:
    found = _used(scale, run, [8.0])
    series = {f["stream"]: (list(range(len(f["counts"]))), f["counts"]) for f in found}
    title = "How often each byte of a dictionary is used (figure 5.2.5)"
    pictures = plots.lines(out / "figure-5.2.5", title, series, ("place in the dictionary", "references"))
    table = [(f["stream"], len(f["counts"]), f["used"], max(f["counts"])) for f in found]
    return Sheet("figure 5.2.5: usage by place", ("stream", "bytes", "used %", "most often"), table, (), pictures)


def figure_5_2_6(scale: Scale, run: Run, out: Path) -> Sheet:
    found = _sizes(scale, run)
    columns = ("stream", "multiplier", "saved", "travels in")
    table = [tuple(figures[name] for name in columns) for figures in found]
    series = {stream: _line(found, stream, "multiplier", "saved") for stream in _names(found)}
    title = "Bytes saved by the size of the dictionary (figure 5.2.6)"
    pictures = plots.lines(out / "figure-5.2.6", title, series, (SIZE, SAVED), log=True)
    return Sheet("figure 5.2.6: size", columns, table, (), pictures)


def figure_5_4_1(scale: Scale, run: Run, out: Path) -> Sheet:
    about = {"data": scale.data, "messages": scale.most, "tests": 10 if scale.quick else 100}
    cells = [{"stream": stream, **about} for stream in scale.streams()]
    found = swept(similar_cell, cells, run)
    series = {"mean": [f["mean"] for f in found], "deviation": [f["deviation"] for f in found]}
    names = [f["stream"] for f in found]
    pictures = plots.bars(out / "figure-5.4.1", "How alike messages are (figure 5.4.1)", names, series, "NSim, %")
    table = list(zip(names, *series.values(), strict=True))
    return Sheet("figure 5.4.1: NSim", ("stream", "mean", "deviation"), table, (), pictures)


def _sizes(scale: Scale, run: Run) -> list[Mapping[str, Any]]:
    multipliers = single.MULTIPLIERS[2::4] if scale.quick else single.MULTIPLIERS
    cells = [{"stream": s, "multiplier": m, "data": scale.data} for s in scale.streams() for m in multipliers]
    return [figures for figures in swept(size_cell, cells, run) if figures["saved"] is not None]


def _histories(scale: Scale, run: Run) -> list[Mapping[str, Any]]:
    histories = fixed_rate.HISTORIES[1::4] if scale.quick else fixed_rate.HISTORIES
    cells = [{"stream": s, "history": h, "data": scale.data} for s in scale.streams() for h in histories]
    return swept(history_cell, cells, run)


def _used(scale: Scale, run: Run, multipliers: Sequence[float]) -> list[Mapping[str, Any]]:
    cells = [{"stream": s, "multiplier": m, "data": scale.data} for s in scale.streams() for m in multipliers]
    return [figures for figures in swept(usage_cell, cells, run) if figures["used"] is not None]


def _names(found: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(figures["stream"] for figures in found))


def _line(found: Sequence[Mapping[str, Any]], stream: str, at: str, value: str) -> plots.Points:
    own = [figures for figures in found if figures["stream"] == stream]
    return [figures[at] for figures in own], [figures[value] for figures in own]
