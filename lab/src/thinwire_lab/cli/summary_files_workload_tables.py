"""Tables of a summary as files: CSV or Parquet, one a table, in one folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from thinwire.errors import SummaryError
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.spark.workload_folder_folders import new_folder
from thinwire_lab.workload.summary import AXES, Summary

READERS = {".csv": pc.read_csv, ".parquet": pq.read_table}


def read_summary(folder: Path | None) -> Summary:
    """The summary in a folder; the built-in one where none is named."""
    if folder is None:
        return builtin()
    tables = read_tables(folder)
    known = ("members", "messages", "nodes", "latencies", "regions", "groups")
    axes = [name for name in AXES if f"{name}s" in tables]
    axes += sorted(name[:-1] for name in tables if name not in known and name.endswith("s") and name[:-1] not in AXES)
    return Summary.read(tables, axes or AXES)


def read_tables(folder: Path) -> dict[str, pa.Table]:
    """Every table of a folder, under the name of its file."""
    if not folder.is_dir():
        raise SummaryError("there is no such folder", folder=str(folder))
    return {path.stem: _read(path) for path in sorted(folder.iterdir()) if path.suffix in READERS}


def write_tables(tables: dict[str, pa.Table], out: Path) -> None:
    """All tables into a new folder, which is there when all of them are."""
    with new_folder(out) as folder:
        for name, table in tables.items():
            pq.write_table(table, folder / f"{name}.parquet")


def _read(path: Path) -> pa.Table:
    try:
        return READERS[path.suffix](path)
    except pa.ArrowException as problem:
        raise SummaryError(f"it cannot be read: {problem}", table=path.stem, file=str(path)) from None
