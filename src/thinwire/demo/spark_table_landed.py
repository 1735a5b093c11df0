"""The table that Spark lands the stream in, as one finds it on the disk."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

SINK_LOG = "_spark_metadata"


class LandedTable:
    """Parquet files that count once Spark's own log has them: before that they may be half of a batch.

    place: its folder, which need not be there yet

    rows, stored_bytes, files: as of the last look
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.rows = 0
        self.stored_bytes = 0
        self.files: set[Path] = set()
        self._taken: set[Path] = set()

    def look(self) -> None:
        """Take note of what has landed since the last look; some entries of the log repeat all that came before."""
        entries = set((self.place / SINK_LOG).glob("[0-9]*")) - self._taken
        self._taken |= entries
        for file in {file for entry in entries for file in _files(entry)} - self.files:
            self.files.add(file)
            self.rows += pq.read_metadata(file).num_rows
            self.stored_bytes += file.stat().st_size

    def read(self, columns: pa.Schema) -> pa.Table:
        """All rows as of the last look, with these columns."""
        parts = [pq.ParquetFile(file).read(columns.names).select(columns.names) for file in sorted(self.files)]
        return pa.concat_tables([columns.empty_table(), *(part.cast(columns) for part in parts)])


def _files(entry: Path) -> list[Path]:
    """The first line tells the version of the log, each of the others of a file."""
    lines = entry.read_text().splitlines()[1:]
    return [Path(unquote(json.loads(line)["path"].removeprefix("file://"))) for line in lines]
