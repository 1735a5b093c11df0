"""Tables of the thesis on shared dictionaries, with its values beside ours.

`table_formats` compares the same rows as CSV, JSON, XML and Protocol Buffers. Section 4.3.2 of the thesis: with a
shared dictionary, formats differ little in size. Tables 5.4.4, 5.5.1 and appendix B compare all policies on all streams
by batch size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from thinwire.analysis.analysis_run import CellRunner
from thinwire_lab.reproduce.dictionaries import thesis_numbers as published
from thinwire_lab.reproduce.dictionaries.byte_account import TOPOLOGIES
from thinwire_lab.reproduce.dictionaries.dictionary_measures import decay_cell, form_cell, similar_cell, usage_cell
from thinwire_lab.reproduce.dictionaries.policy_cells import available_streams, run_cell
from thinwire_lab.reproduce.dictionaries.thesis_numbers import THESIS_STREAMS
from thinwire_lab.reproduce.dictionaries.thesis_sheet import (
    Sheet,
    ThesisScale,
    best_of,
    best_published,
    configured_rows,
    lifetime_error,
    policy_rows,
    replaced_lifetimes,
    run_cells,
    settings_of,
)

FORMATS = ("csv", "json", "xml", "pb")
COLUMNS = (
    *("format", "plain, thesis", "plain, ours", "deflate, thesis", "deflate, ours"),
    *("dictionary, thesis", "dictionary, ours"),
)


def table_formats(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    """Return bytes per message, and the ratio of the largest format to the smallest."""
    names = {stream.name for stream in available_streams(scale.data)}
    rows = "debs" if "debs-pb" in names else "taxi"
    streams = [f"{rows}-{format_}" for format_ in FORMATS]
    cells = [{"stream": s, "data": scale.data, "history": 500 if scale.quick else 2000} for s in streams]
    figures = [_compare_sizes(found) for found in run_cells(form_cell, cells, run)]
    largest = [max(column) / min(column) for column in zip(*figures, strict=True)]
    named = zip((*streams, "largest to smallest"), (*figures, largest), strict=True)
    notes = (
        "the thesis includes the bytes of dictionaries, ours are not included: their share depends on their lifetime",
    )
    return Sheet("table formats: bytes per message", COLUMNS, [(name, *row) for name, row in named], notes)


def _compare_sizes(found: Mapping[str, Any]) -> list[float]:
    """Return plain, deflated and dictionary sizes, thesis before ours."""
    theirs = published.TABLE_4_3_1[THESIS_STREAMS[found["stream"]]]
    names = (("mean", "plain"), ("deflate size", "deflate"), ("size", "dictionary"))
    return [size for name, own in names for size in (theirs[name], found[own])]


SIMILAR_STREAMS = (
    "only the DEBS streams are those of the thesis; other streams are compared with the most similar one of the thesis"
)
STREAM_LENGTHS = "streams have the length of the recordings; the thesis uses a million messages"
NOTES = (SIMILAR_STREAMS, STREAM_LENGTHS)


def table_4_3_1(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    streams = scale.streams(list(published.TABLE_4_3_1))
    rows = configured_rows(scale, run, streams)
    deflated = _by_stream(policy_rows(scale, run, streams, ["deflate"]))
    table = []
    for stream in streams:
        best = max((row for row in rows if row["stream"] == stream), key=lambda row: float(row["reduction"]))
        theirs = published.TABLE_4_3_1[THESIS_STREAMS[stream]]
        table.append(
            (stream, theirs["mean"], best["mean size"],
             "/".join(str(theirs[name]) for name in ("history", "life", "multiplier")), settings_of(best),
             theirs["deflate"], deflated[stream]["reduction"], theirs["saved"], best["reduction"])
        )  # fmt: skip
    columns = ("stream", "mean size, thesis", "mean size, ours", "best history/life/multiplier, thesis",
               "best history/life/multiplier, ours", "deflate %, thesis", "deflate %, ours", "dictionary %, thesis",
               "dictionary %, ours")  # fmt: skip
    return Sheet("table 4.3.1: bytes saved by the best fixed configuration", columns, table, NOTES)


def table_4_3_2(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    streams = scale.streams(list(published.TABLE_4_3_2))
    fixed = best_of(configured_rows(scale, run, streams))
    rows = best_of(policy_rows(scale, run, streams, ["deflate", "adaptive", "ours"]))
    table = []
    for stream in streams:
        name = THESIS_STREAMS[stream]
        theirs, adaptive = published.TABLE_4_3_1[name], published.TABLE_4_3_2[name]["adaptive"]
        found = [fixed[stream, "fixed rate", "1:1"], *(rows[stream, p, "1:1"] for p in ("deflate", "adaptive", "ours"))]
        saved = [row["reduction"] for row in found]
        table.append((stream, theirs["saved"], saved[0], theirs["deflate"], saved[1], adaptive, saved[2], saved[3]))
    columns = ("stream", "best fixed %, thesis", "best fixed %, ours", "deflate %, thesis", "deflate %, ours",
               "Adaptive %, thesis", "Adaptive %, ours", "our policy %")  # fmt: skip
    return Sheet("table 4.3.2: bytes saved by Adaptive", columns, table, NOTES)


def table_5_2_1(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    streams = scale.streams()
    multipliers = list(published.TABLE_5_2_1)[:: 4 if scale.quick else 1]
    cells = [{"stream": s, "multiplier": m, "data": scale.data} for m in multipliers for s in streams]
    found = [figures for figures in run_cells(usage_cell, cells, run) if figures["used"] is not None]
    table = []
    for times in multipliers:
        ours = [figures for figures in found if figures["multiplier"] == times]
        used, internal = (fmean(f[name] for f in ours) if ours else None for name in ("used", "internal"))
        theirs = published.TABLE_5_2_1[times]
        table.append((f"{times:g}x", theirs[0], used, theirs[1], internal, len(ours)))
    columns = ("size", "dictionary used %, thesis", "dictionary used %, ours", "internal usage %, thesis",
               "internal usage %, ours", "streams")  # fmt: skip
    return Sheet("table 5.2.1: usage by size, mean of all streams", columns, table)


def table_5_4_2(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    about = {"data": scale.data, "messages": scale.most, "tests": 10 if scale.quick else 100}
    cells = [{"stream": stream, **about} for stream in scale.streams()]
    table = []
    for figures in run_cells(similar_cell, cells, run):
        theirs = published.TABLE_5_4_2.get(THESIS_STREAMS.get(figures["stream"], ""), {})
        pairs = [value for name in ("mean", "deviation") for value in (theirs.get(name), figures[name])]
        table.append((figures["stream"], figures["messages"], *pairs))
    columns = ("stream", "messages", "mean NSim, thesis", "mean NSim, ours", "deviation, thesis", "deviation, ours")
    return Sheet("table 5.4.2: similarity of messages", columns, table, (SIMILAR_STREAMS,))


def table_5_4_3(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    streams = scale.streams(list(published.TABLE_5_4_3))
    table = []
    for row in _predicted(scale, run, streams):
        theirs = published.TABLE_5_4_3[THESIS_STREAMS[row["stream"]]]
        error = lifetime_error(replaced_lifetimes(row["decisions"]))
        table.append(
            (row["stream"], row["settings"]["reading"], row["messages"], theirs["dictionaries"], row["dictionaries"],
             theirs["error"], error)
        )  # fmt: skip
    columns = ("stream", "reading of MC.base", "messages", "dictionaries, thesis", "dictionaries, ours",
               "error %, thesis", "error %, ours")  # fmt: skip
    return Sheet("table 5.4.3: lifetimes expected by Predict", columns, table, NOTES)


def table_6_2_1(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    every = 1_000 if scale.quick else 10_000
    cells = [{"stream": s, "data": scale.data, "messages": scale.most, "every": every} for s in scale.streams()]
    table = []
    for ours in run_cells(decay_cell, cells, run):
        if ours["begin"] is None:
            continue
        theirs = published.TABLE_6_2_1.get(THESIS_STREAMS.get(ours["stream"], ""))
        pairs = zip(_decay(theirs) if theirs else (None,) * 5, _decay(ours), strict=True)
        table.append((ours["stream"], ours["samples"], *(value for pair in pairs for value in pair)))
    names = ("mean size", "packed", "points lost", "swing", "dictionary kB")
    columns = ("stream", "samples", *(f"{name}, {whose}" for name in names for whose in ("thesis", "ours")))
    return Sheet("table 6.2.1: one dictionary without replacement", columns, table, NOTES)


def _decay(found: Mapping[str, Any]) -> tuple[float, ...]:
    return found["mean"], found["packed"], found["begin"] - found["end"], found["swing"], found["kilobytes"]


def _predicted(scale: ThesisScale, run: CellRunner, streams: Sequence[str]) -> list[Mapping[str, Any]]:
    cells = [
        {"stream": s, "policy": "predict", "data": scale.data, "messages": scale.most, "publishers": [1],
         "settings": {"reading": reading}}
        for s in streams
        for reading in ("words", "printed")
    ]  # fmt: skip
    return [row for figures in run_cells(run_cell, cells, run) for row in figures["rows"]]


def _by_stream(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {row["stream"]: row for row in rows if row["topology"] == "1:1"}


POLICIES = ("deflate", "fixed rate", "single", "adaptive", "predict", "ours", "ours, length known")


def policy_table(number: str, scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    """Return table 5.4.4, 5.5.1 or one of appendix B: all policies on all streams with batches of one size."""
    batch, theirs, means = published.POLICY_TABLES[number]
    streams = scale.streams()
    rows = policy_rows(scale, run, streams, POLICIES, batch)
    shown, best = best_of(rows), best_published(rows)
    names = [topology.name for topology in TOPOLOGIES]
    table: list[tuple[Any, ...]] = []
    for stream in streams:
        for policy in POLICIES:
            saved = theirs.get(policy, {}).get(THESIS_STREAMS.get(stream, ""))
            found = [shown[stream, policy, name] for name in names]
            table.append(
                (stream, policy, saved, *(f["reduction"] for f in found), found[0]["dictionaries"], *_cpu(found[0]))
            )
        hindsight = [best[stream, name]["reduction"] for name in names]
        table.append((stream, "best published, in hindsight", None, *hindsight, None, None, None, None))
    for policy in POLICIES:
        ours = [fmean(shown[stream, policy, name]["reduction"] for stream in streams) for name in names]
        table.append(("mean", policy, means.get(policy, (None,))[0], *ours, None, None, None, None))
    columns = ("stream", "policy", "thesis, 1:1", *(f"ours, {name}" for name in names), "dictionaries",
               "CPU s publishers", "CPU s subscribers", "CPU s sampler")  # fmt: skip
    means_text = ", ".join(f"{policy} {one:g}/{many:g}/{most:g}" for policy, (one, many, most) in means.items())
    notes = (
        f"means of the thesis over its 20 streams with 1/1,000/10,000 publishers: {means_text}",
        SIMILAR_STREAMS,
        STREAM_LENGTHS,
    )
    how = f" with batches of {batch}" if batch > 1 else ", all overhead included"
    return Sheet(f"table {number}: bytes saved{how}", columns, table, notes)


def _cpu(row: Mapping[str, Any]) -> tuple[float, float, float]:
    return row["cpu publishers"], row["cpu subscribers"], row["cpu sampler"]
