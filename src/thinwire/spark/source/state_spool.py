"""Where tasks of a stream leave the state of links for the tasks after them, on the disk of the machine they run on.

It spares reading, and nothing depends on it: what is not there is found out from the log again.
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

from thinwire.topics.log_tables import Counted

STALE = 86_400.0
"""seconds after which nobody comes back for a state"""
MAX_STATE = 1 << 30
COUNTED = "reading.jsonl"

_log = logging.getLogger("thinwire.spark")


class Spool:
    """A folder of states by name.

    location: which; one of this user's own in the system's place for temporary files by default
    """

    def __init__(self, location: str | None = None) -> None:
        self.folder = Path(location) if location else Path(tempfile.gettempdir()) / f"thinwire-spark-{os.getuid()}"
        self._counting = location is not None

    def get(self, name: str) -> bytes | None:
        """The state under a name, if it is there."""
        file = self._file(name)
        try:
            if not self._is_ours() or file.stat().st_size > MAX_STATE:
                return None
            return file.read_bytes()
        except OSError:
            return None

    def put(self, name: str, state: bytes) -> None:
        """Leave a state; a disk that does not take it costs a reader time, and nothing else."""
        made = self._file(f"{name}.{os.getpid()}")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_ours():
                made.write_bytes(state)
                made.replace(self._file(name))
        except OSError as problem:
            _log.warning("the state of links could not be kept in %s: %s", self.folder, problem)
            with suppress(OSError):
                made.unlink()

    def forget(self, name: str) -> None:
        """Throw a state away."""
        with suppress(OSError):
            self._file(name).unlink()

    def forget_all(self, run: str) -> None:
        """Throw away every state of a run, by how their names begin."""
        with suppress(OSError):
            for file in self.folder.glob(f"{run}-*.state"):
                file.unlink()

    def sweep(self) -> None:
        """Throw away what nobody will come back for."""
        with suppress(OSError):
            for file in self.folder.glob("*.state"):
                if time.time() - file.stat().st_mtime > STALE:
                    file.unlink()

    def note(self, what: str, counted: Counted) -> None:
        """Where the folder was chosen by the user: how much a task was asked for, and how much it had to read."""
        if self._counting:
            line = json.dumps({"part": what, **asdict(counted)}) + "\n"
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with (self.folder / COUNTED).open("a") as file:
                file.write(line)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.state"

    def _is_ours(self) -> bool:
        """Nobody else may have put something there for us to read."""
        return self.folder.stat().st_uid == os.getuid()
