"""Figures of the thesis on policies (over time, by settings, by batch size) and on single dictionaries.

Each function returns the table of a figure and writes its plot to the folder `out`; `run` runs cells. The titles of the
figures are in `thesis_items`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from thinwire.analysis.analysis_run import CellRunner
from thinwire_lab.reproduce.dictionaries import thesis_numbers as published
from thinwire_lab.reproduce.dictionaries import thesis_sheet as plots
from thinwire_lab.reproduce.dictionaries.byte_account import BATCHES
from thinwire_lab.reproduce.dictionaries.dictionary_measures import history_cell, similar_cell, size_cell, usage_cell
from thinwire_lab.reproduce.dictionaries.policies import fixed_rate, single
from thinwire_lab.reproduce.dictionaries.policy_cells import run_cell
from thinwire_lab.reproduce.dictionaries.thesis_sheet import (
    SAVED,
    Sheet,
    ThesisScale,
    best_of,
    configured_rows,
    current_lifetime,
    policy_rows,
    replaced_lifetimes,
    run_cells,
)

OVER_TIME = ("deflate", "single", "fixed rate", "adaptive", "predict", "ours")
MAX_BATCHED = 100_000
"""messages of a stream in the figures of batches"""


def figure_4_3_2(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    streams = scale.streams()
    rows = best_of(policy_rows(scale, run, streams, ("deflate", "ours")))
    series = {p: [rows[s, p, "1:1"]["reduction"] for s in streams] for p in ("deflate", "ours")}
    pictures = plots.bars(out / "figure-4.3.2", "Bytes saved with all overhead (figure 4.3.2)", streams, series, SAVED)
    table = list(zip(streams, *series.values(), strict=True))
    return Sheet("figure 4.3.2: dictionaries against deflate", ("stream", *series), table, (), pictures)


def figure_4_3_4(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    stream = scale.streams(["DEBS json"])[:1]
    (row,) = [r for r in policy_rows(scale, run, stream, ["adaptive"]) if r["topology"] == "1:1"][:1]
    columns = ("seen", "decision", "saved now", "saved by a new one", "life")
    table = [tuple(decision.get(name) for name in columns) for decision in row["decisions"]]
    comparisons = [d for d in row["decisions"] if "saved now" in d]
    series = {"all so far, with overhead": _points(row["timeline"])}
    for name in ("saved now", "saved by a new one"):
        series[name] = ([d["seen"] for d in comparisons], [d[name] for d in comparisons])
    title = f"Adaptive over time, {row['stream']} (figure 4.3.4)"
    pictures = plots.lines(out / "figure-4.3.4", title, series, ("messages", SAVED))
    return Sheet("figure 4.3.4: Adaptive over time", columns, table, (), pictures)


def figure_5_4_2(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    stream = scale.streams(["DEBS json"])[:1]
    (row,) = [r for r in policy_rows(scale, run, stream, ["predict"]) if r["topology"] == "1:1"][:1]
    lives = replaced_lifetimes(row["decisions"])
    numbers = list(range(1, len(lives) + 1))
    series = {"expected": (numbers, [e for e, _ in lives]), "actual": (numbers, [a for _, a in lives])}
    title = f"Lifetimes of dictionaries, {row['stream']} (figure 5.4.2)"
    pictures = plots.lines(out / "figure-5.4.2", title, series, ("dictionary", "messages"), dots=True)
    table: list[tuple[Any, ...]] = [(number, *life) for number, life in zip(numbers, lives, strict=True)]
    table += [(len(lives) + 1, life, "in use") for life in current_lifetime(row["decisions"])]
    return Sheet(
        "figure 5.4.2: lifetimes expected by Predict", ("dictionary", "expected", "actual"), table, (), pictures
    )


def figure_5_4_3(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    rows = policy_rows(scale, run, scale.streams(), ("single", "adaptive", "predict", "ours"))
    rows = [row for row in rows if row["topology"] == "1:1"]
    best = best_of(rows)
    groups: dict[str, list[float]] = {}
    for row in rows:
        difference = row["reduction"] - best[row["stream"], row["policy"], "1:1"]["reduction"]
        groups.setdefault(row["policy"], []).append(difference)
    pictures = plots.boxes(
        out / "figure-5.4.3", "Settings against the best ones (figure 5.4.3)", groups, "points of bytes saved"
    )
    table = [(policy, min(points), sorted(points)[len(points) // 2], max(points)) for policy, points in groups.items()]
    notes = ("thesis: Single up to 25 points below its best settings, Adaptive up to 6",)
    return Sheet("figure 5.4.3: settings", ("policy", "worst", "median", "best"), table, notes, pictures)


def figure_5_4_4(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    return _over_time(scale, run, out, "5.4.4", scale.streams(["DEBS json", "Neut log"])[:1] or scale.streams()[:1])


def figure_5_4_5(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    return _over_time(scale, run, out, "5.4.5", scale.streams(["DEBS csv"])[:1])


def figure_5_5_1(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    return _batches(scale, run, out, "5.5.1", publishers=1)


def figure_5_5_2(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    return _batches(scale, run, out, "5.5.2", publishers=1000)


def _over_time(scale: ThesisScale, run: CellRunner, out: Path, number: str, streams: Sequence[str]) -> Sheet:
    shown = best_of(policy_rows(scale, run, streams, OVER_TIME))
    rows = {policy: shown[streams[0], policy, "1:1"] for policy in OVER_TIME}
    series = {policy: _points(row["timeline"]) for policy, row in rows.items()}
    title = f"Bytes saved so far, {streams[0]} (figure {number})"
    pictures = plots.lines(out / f"figure-{number}", title, series, ("messages", SAVED))
    table = [(policy, row["messages"], row["reduction"], row["dictionaries"]) for policy, row in rows.items()]
    columns = ("policy", "messages", SAVED, "dictionaries")
    return Sheet(f"figure {number}: over time, {streams[0]}", columns, table, (), pictures)


def _batches(scale: ThesisScale, run: CellRunner, out: Path, number: str, publishers: int) -> Sheet:
    streams, policies = scale.streams(), ("deflate", "predict", "ours")
    batches = BATCHES[::4] if scale.quick else BATCHES
    cells = [
        {"stream": s, "policy": p, "data": scale.data, "messages": min(scale.most, MAX_BATCHED), "batch": batch,
         "publishers": [publishers]}
        for s in streams for p in policies for batch in batches
    ]  # fmt: skip
    rows = [row for figures in run_cells(run_cell, cells, run) for row in figures["rows"]]
    table: list[tuple[Any, ...]] = []
    for batch in batches:
        theirs = published.MEANS.get(batch, {})
        column = 0 if publishers == 1 else 1
        values = [theirs.get(p, (None, None))[column] for p in ("deflate", "predict")]
        table.append((batch, *values, *(_mean(rows, p, batch) for p in policies)))
    series = {p: (list(batches), [_mean(rows, p, batch) for batch in batches]) for p in policies}
    title = f"Batches, {publishers:,}:1, mean of {len(streams)} streams (figure {number})"
    pictures = plots.lines(out / f"figure-{number}", title, series, ("messages in a batch", SAVED), log=True)
    columns = ("batch", "deflate, thesis", "predict, thesis", *(f"{policy}, ours" for policy in policies))
    notes = ("thesis: deflate approaches dictionaries at about 20 messages in a batch",)
    return Sheet(f"figure {number}: batches", columns, table, notes, pictures)


def _mean(rows: Sequence[Mapping[str, Any]], policy: str, batch: int) -> float:
    found = [float(row["reduction"]) for row in rows if row["policy"] == policy and row["batch"] == batch]
    return sum(found) / len(found)


def _points(timeline: Sequence[Sequence[float]]) -> plots.Points:
    return [at for at, _ in timeline], [value for _, value in timeline]


SIZE = "size of the dictionary, mean messages"


def figure_4_3_1(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
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


def figure_4_3_3(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    found = _sizes(scale, run)
    columns = ("stream", "multiplier", "bytes", "pack us", "read us")
    times = {step: _curves(found, ("stream", "multiplier", f"{step} us")) for step in ("pack", "read")}
    series = {f"{stream}, {step}": times[step][stream] for stream in times["pack"] for step in times}
    title = "CPU per message by the size of the dictionary (figures 4.3.3, 5.2.3)"
    pictures = plots.lines(out / "figure-4.3.3", title, series, (SIZE, "us per message"), log=True)
    return Sheet("figures 4.3.3 and 5.2.3: CPU by size", columns, _rows(found, columns), (), pictures)


def figure_5_2_1(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    found = _histories(scale, run)
    columns, axes = ("stream", "kB", "cpu seconds"), ("history, kB", "CPU seconds")
    title = "CPU to train a dictionary (figure 5.2.1)"
    pictures = plots.lines(out / "figure-5.2.1", title, _curves(found, columns), axes, dots=True)
    return Sheet("figure 5.2.1: sampling time", columns, _rows(found, columns), (), pictures)


def figure_5_2_2(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    found = [figures for figures in _histories(scale, run) if figures["saved"] is not None]
    columns, axes = ("stream", "history", "saved"), ("history, messages", SAVED)
    title = "Bytes saved on later messages by history (figure 5.2.2)"
    pictures = plots.lines(out / "figure-5.2.2", title, _curves(found, columns), axes, log=True)
    return Sheet("figure 5.2.2: history", columns, _rows(found, columns), (), pictures)


def figure_5_2_4(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    found = _used(scale, run, list(published.TABLE_5_2_1)[:: 4 if scale.quick else 1])
    columns = ("stream", "multiplier", "used", "referred", "internal")
    series = _curves(found, columns)
    series["thesis, mean"] = (list(published.TABLE_5_2_1), [used for used, _ in published.TABLE_5_2_1.values()])
    title = "Share of a dictionary in use (figure 5.2.4)"
    pictures = plots.lines(out / "figure-5.2.4", title, series, (SIZE, "used, %"), log=True)
    return Sheet("figure 5.2.4: usage by size", columns, _rows(found, columns), (), pictures)


def figure_5_2_5(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    found = _used(scale, run, [8.0])
    series = {f["stream"]: (list(range(len(f["counts"]))), f["counts"]) for f in found}
    title = "References to each byte of a dictionary (figure 5.2.5)"
    pictures = plots.lines(out / "figure-5.2.5", title, series, ("position in the dictionary", "references"))
    table = [(f["stream"], len(f["counts"]), f["used"], max(f["counts"])) for f in found]
    return Sheet("figure 5.2.5: usage by position", ("stream", "bytes", "used %", "most often"), table, (), pictures)


def figure_5_2_6(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    found = _sizes(scale, run)
    columns = ("stream", "multiplier", "saved", "travels in")
    title = "Bytes saved by the size of the dictionary (figure 5.2.6)"
    pictures = plots.lines(out / "figure-5.2.6", title, _curves(found, columns), (SIZE, SAVED), log=True)
    return Sheet("figure 5.2.6: size", columns, _rows(found, columns), (), pictures)


def figure_5_4_1(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    about = {"data": scale.data, "messages": scale.most, "tests": 10 if scale.quick else 100}
    cells = [{"stream": stream, **about} for stream in scale.streams()]
    found = run_cells(similar_cell, cells, run)
    series = {"mean": [f["mean"] for f in found], "deviation": [f["deviation"] for f in found]}
    names = [f["stream"] for f in found]
    pictures = plots.bars(out / "figure-5.4.1", "Similarity of messages (figure 5.4.1)", names, series, "NSim, %")
    table = list(zip(names, *series.values(), strict=True))
    return Sheet("figure 5.4.1: NSim", ("stream", "mean", "deviation"), table, (), pictures)


def _sizes(scale: ThesisScale, run: CellRunner) -> list[Mapping[str, Any]]:
    multipliers = single.MULTIPLIERS[2::4] if scale.quick else single.MULTIPLIERS
    cells = [{"stream": s, "multiplier": m, "data": scale.data} for s in scale.streams() for m in multipliers]
    return [figures for figures in run_cells(size_cell, cells, run) if figures["saved"] is not None]


def _histories(scale: ThesisScale, run: CellRunner) -> list[Mapping[str, Any]]:
    histories = fixed_rate.HISTORIES[1::4] if scale.quick else fixed_rate.HISTORIES
    cells = [{"stream": s, "history": h, "data": scale.data} for s in scale.streams() for h in histories]
    return run_cells(history_cell, cells, run)


def _used(scale: ThesisScale, run: CellRunner, multipliers: Sequence[float]) -> list[Mapping[str, Any]]:
    cells = [{"stream": s, "multiplier": m, "data": scale.data} for s in scale.streams() for m in multipliers]
    return [figures for figures in run_cells(usage_cell, cells, run) if figures["used"] is not None]


def _rows(found: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    return [tuple(figures[name] for name in columns) for figures in found]


def _curves(found: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> dict[str, plots.Points]:
    """Return the third column over the second one as a line for each stream."""
    _, x, y = columns[:3]
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for figures in found:
        at, values = curves.setdefault(figures["stream"], ([], []))
        at.append(figures[x])
        values.append(figures[y])
    return dict(curves)
