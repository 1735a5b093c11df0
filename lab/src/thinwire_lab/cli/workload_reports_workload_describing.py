"""What is in the folder of a workload, counted from its own rows, a batch at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from thinwire.errors import SummaryError
from thinwire_lab.cli.summary_files_workload_tables import read_tables
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.random_rows_randomness import Floats
from thinwire_lab.workload.recipe import Recipe, Stage
from thinwire_lab.workload.subscription_sample import missed
from thinwire_lab.workload.summary import Summary

SHOWN = 20_000
"""subscribers that a picture of places shows"""


def describe_folder(folder: Path) -> dict[str, Any]:
    """The manifest of a workload, its sizes, and the interests of its subscriptions counted anew."""
    from thinwire_lab.workload.spark.workload_folder import read_manifest

    manifest = read_manifest(folder)
    tables = {name: _sizes(folder / name) for name in ("subscriptions", "events", "brokers")}
    drawn = drawn_interests(folder, manifest)
    found = {"tables": tables, "drawn": Stage("drawn", drawn).facts(), "missed": _missed(folder, manifest, drawn)}
    return {**manifest, **found}


def drawn_interests(folder: Path, manifest: Mapping[str, Any]) -> Interests:
    """The interests of the subscriptions of a workload."""
    return _counted(folder / "subscriptions", _members(folder, manifest))


def draw_pictures(folder: Path, found: Mapping[str, Any], out: Path) -> list[Path]:
    """Interests, places and what the one tells about the other, as pictures.

    found: what `describe_folder` has found
    """
    from thinwire_lab.workload import workload_pictures_pictures as pictures

    drawn = drawn_interests(folder, found)
    steps = {stage["step"]: stage["bits_about_region"] for stage in (*found["stages"], found["drawn"])}
    lanes = [f"at_{lane}" for lane in range(found["dimensions"])]
    some = _every(folder / "subscriptions", ["region", *lanes], 1 + found["tables"]["subscriptions"][0] // SHOWN)
    brokers = _points(ds.dataset(folder / "brokers", format="parquet").to_table(columns=lanes), lanes)
    made = pictures.heat_maps(drawn, "Interests of subscribers", out / "interests")
    made += pictures.along_axes(drawn, "Regions of subscribers, by interest", out / "regions")
    made += pictures.told(steps, out / "correlation")
    if some.num_rows:
        region = some["region"].to_numpy().astype(np.int64)
        made += pictures.places(_points(some, lanes), region, found["regions"], brokers, out / "places")
    return made


def _members(folder: Path, manifest: Mapping[str, Any]) -> Interests:
    return Summary.read(read_tables(folder / "summary"), manifest["axes"]).members


def _missed(folder: Path, manifest: Mapping[str, Any], drawn: Interests) -> dict[str, Any]:
    """Interests without a subscription: how many, the most popular by name, and how many plain sampling would miss."""
    *_, last = Recipe(**manifest["recipe"]).stages(_members(folder, manifest))
    found = missed(last.interests, drawn)
    cells = zip(*np.unravel_index(found.popular, last.interests.popularity.shape), strict=True)
    named = [[axis.labels[node] for axis, node in zip(drawn.axes, cell, strict=True)] for cell in cells]
    return {"interests": found.interests, "most_popular": named, "plain_sampling": found.plain}


def _every(place: Path, names: list[str], step: int) -> pa.Table:
    """Every so many-th row of a table: the first ones would all be of popular interests."""
    rows = ds.dataset(place, format="parquet")
    batches = [b.take(pa.array(np.arange(0, b.num_rows, step))) for b in rows.to_batches(columns=names)]
    return pa.Table.from_batches(batches, rows.schema.empty_table().select(names).schema)


def _points(table: pa.Table, lanes: list[str]) -> Floats:
    return np.stack([table[lane].to_numpy() for lane in lanes], axis=1)


def _counted(place: Path, members: Interests) -> Interests:
    names = [*(axis.name for axis in members.axes), "region"]
    counts = np.zeros(members.counts.size)
    for batch in ds.dataset(place, format="parquet").to_batches(columns=names):
        columns = [batch.column(name).to_numpy().astype(np.int64) for name in names]
        try:
            flat = np.ravel_multi_index(tuple(columns), members.counts.shape)
        except ValueError:
            raise SummaryError("a subscription of a node that no hierarchy has", table="subscriptions") from None
        counts += np.bincount(flat, minlength=counts.size)
    return members.changed(counts.reshape(members.counts.shape))


def _sizes(place: Path) -> tuple[int, int]:
    """Rows and bytes of a table."""
    found = ds.dataset(place, format="parquet")
    return found.count_rows(), sum(Path(file).stat().st_size for file in found.files)
