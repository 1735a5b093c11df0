"""Decoder states that tasks of a stream store on the local disk for the tasks of the next batch.

The states are a cache. Without one, the next task seeks in the log.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from thinwire.topics.log_tables.log_table import ReadCounts

STALE = 86_400.0
"""seconds after which a state is deleted"""
MAX_STATE = 1 << 30
COUNTS_FILE = "reading.jsonl"

_log = logging.getLogger("thinwire.spark")


class StateSpool:
    """A folder of states by name.

    location: the folder; by default one of this user below the system's folder for temporary files
    """

    def __init__(self, location: str | None = None) -> None:
        self.folder = Path(location) if location else Path(tempfile.gettempdir()) / f"thinwire-spark-{os.getuid()}"
        self._has_counts_file = location is not None

    def get(self, name: str) -> bytes | None:
        """Return a state, or None."""
        file = self._file(name)
        try:
            if not self._is_ours() or file.stat().st_size > MAX_STATE:
                return None
            return file.read_bytes()
        except OSError:
            return None

    def put(self, name: str, state: bytes) -> None:
        """Store a state. A failure is logged and costs the next task a seek."""
        unfinished = self._file(f"{name}.{os.getpid()}")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_ours():
                unfinished.write_bytes(state)
                unfinished.replace(self._file(name))
        except OSError as problem:
            _log.warning("cannot store decoder states in %s: %s", self.folder, problem)
            with suppress(OSError):
                unfinished.unlink()

    def delete(self, name: str) -> None:
        """Delete a state, if it exists."""
        with suppress(OSError):
            self._file(name).unlink()

    def delete_run(self, run: str) -> None:
        """Delete every state of a run of a query."""
        with suppress(OSError):
            for file in self.folder.glob(f"{run}-*.state"):
                file.unlink()

    def delete_stale(self) -> None:
        """Delete states of queries that ended without cleaning up."""
        with suppress(OSError):
            for file in self.folder.glob("*.state"):
                if time.time() - file.stat().st_mtime > STALE:
                    file.unlink()

    def append_counts(self, partition: str, counts: ReadCounts) -> None:
        """Append the counts of a task to a file, if the user chose the folder."""
        if self._has_counts_file:
            line = json.dumps({"part": partition, **asdict(counts)}) + "\n"
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with (self.folder / COUNTS_FILE).open("a") as file:
                file.write(line)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.state"

    def _is_ours(self) -> bool:
        """Return whether this user owns the folder. A state of another user is not trusted."""
        return self.folder.stat().st_uid == os.getuid()
