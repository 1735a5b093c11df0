"""Tables of all policies on all streams, by batch size: 5.4.4, 5.5.1 and appendix B of the thesis."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from thinwire.analysis.analysis_cells import Run
from thinwire.dictionaries.byte_account import TOPOLOGIES
from thinwire_lab.reproduce.dictionaries import thesis_numbers_dictionaries_published as published
from thinwire_lab.reproduce.dictionaries.dictionary_tables_dictionaries_tables import LENGTH, OTHERS
from thinwire_lab.reproduce.dictionaries.thesis_numbers import TABLES_B
from thinwire_lab.reproduce.dictionaries.thesis_numbers_dictionaries_published import STANDS_FOR
from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_sheet import (
    Scale,
    Sheet,
    best_of,
    best_published,
    policy_rows,
)

POLICIES = ("deflate", "fixed rate", "single", "adaptive", "predict", "ours", "ours, length known")


def table_5_4_4(scale: Scale, run: Run, out: Path) -> Sheet:
    return _result_summary(scale, run, "table 5.4.4: bytes saved, everything counted", 1, published.TABLE_5_4_4)


def table_5_5_1(scale: Scale, run: Run, out: Path) -> Sheet:
    return _result_summary(scale, run, "table 5.5.1: bytes saved with batches of two", 2, published.TABLE_5_5_1)


def table_b(number: str, scale: Scale, run: Run, out: Path) -> Sheet:
    batch, saved = TABLES_B[number]
    return _result_summary(scale, run, f"table {number}: bytes saved with batches of {batch}", batch, saved)


APPENDIX = {number: partial(table_b, number) for number in TABLES_B}


def _result_summary(scale: Scale, run: Run, title: str, batch: int, theirs: Mapping[str, Mapping[str, float]]) -> Sheet:
    streams = scale.streams()
    rows = policy_rows(scale, run, streams, POLICIES, batch)
    shown, best = best_of(rows), best_published(rows)
    names = [topology.name for topology in TOPOLOGIES]
    table: list[tuple[Any, ...]] = []
    for stream in streams:
        for policy in POLICIES:
            number = theirs.get(policy, {}).get(STANDS_FOR.get(stream, ""))
            found = [shown[stream, policy, name] for name in names]
            table.append(
                (stream, policy, number, *(f["reduction"] for f in found), found[0]["dictionaries"], *_cpu(found[0]))
            )
        hindsight = [best[stream, name]["reduction"] for name in names]
        table.append((stream, "best published, in hindsight", None, *hindsight, None, None, None, None))
    means = published.MEANS[batch]
    for policy in POLICIES:
        ours = [fmean(shown[stream, policy, name]["reduction"] for stream in streams) for name in names]
        table.append(("mean", policy, means.get(policy, (None,))[0], *ours, None, None, None, None))
    columns = ("stream", "policy", "thesis, 1:1", *(f"ours, {name}" for name in names), "dictionaries",
               "CPU s publishers", "CPU s subscribers", "CPU s sampler")  # fmt: skip
    told = ", ".join(f"{policy} {one:g}/{many:g}/{most:g}" for policy, (one, many, most) in means.items())
    notes = (f"means of the thesis over its 20 streams with 1/1,000/10,000 publishers: {told}", OTHERS, LENGTH)
    return Sheet(title, columns, table, notes)


def _cpu(row: Mapping[str, Any]) -> tuple[float, float, float]:
    return row["cpu publishers"], row["cpu subscribers"], row["cpu sampler"]
