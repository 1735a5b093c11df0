"""The same analysis as on Spark, in this process alone: for what fits into memory once, as events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

from thinwire.analysis.analysis_run_staged import Wanted, one_by_one, staged
from thinwire.analysis.event_files import kept
from thinwire.analysis.event_files_reading import Rejects, read_events
from thinwire.analysis.event_times import HEAD, Stamper
from thinwire.analysis.report import TopicReport
from thinwire.analysis.work_folder import BATCH, Stood, write_sorted
from thinwire.analysis.work_folder_workplace import Workplace
from thinwire.errors import ConfigError


def in_process(paths: Sequence[Path], wanted: Wanted, *, work: Path | None = None) -> TopicReport:
    """Read files, sort their events, and analyse them, one cell after the other."""
    rejects = Rejects()
    rows = [
        Stood(None, str(path.resolve()), read.line, read.event)
        for path in map(_there, paths)
        for read in read_events(path, rejects)
    ]
    with working(work) as folder:
        timed, found = stamped(rows, wanted, rejects)
        write_sorted(Workplace(folder).sorted_folder, timed)
        return staged(folder, found, one_by_one, rejects)


def stamped(rows: list[Stood], wanted: Wanted, rejects: Rejects) -> tuple[list[Stood], Wanted]:
    """Events with their times, and the property that tells it; those that tell none are rejects."""
    if wanted.rate:
        return rows, wanted
    stamper = stamper_for([row.event for row in rows[:HEAD]], wanted)
    found = []
    for at in range(0, len(rows), BATCH):
        some = rows[at : at + BATCH]
        for row, seconds in zip(some, stamper.seconds([row.event for row in some]), strict=True):
            if seconds is None:
                rejects.add(row.file, row.line, kept(row.event), stamper.complaint)
            else:
                found.append(row._replace(seconds=seconds))
    return found, replace(wanted, time=stamper.name)


def stamper_for(head: Sequence[dict[str, object]], wanted: Wanted) -> Stamper:
    """What reads the time of these events."""
    if wanted.schema is not None:
        return Stamper.of(wanted.schema)
    return Stamper.found(head, wanted.topic, time=wanted.time, dimensions=wanted.dimensions)


@contextmanager
def working(work: Path | None) -> Iterator[Path]:
    """A folder to work in; nothing of the work is left behind."""
    if work is None:
        with TemporaryDirectory(prefix="thinwire-analyze-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    if work.exists() and any(work.iterdir()):
        raise ConfigError("the folder to work in must be empty: name another one", work=str(work))
    work.mkdir(parents=True, exist_ok=True)
    try:
        yield work
    finally:
        rmtree(work, ignore_errors=True)


def _there(path: Path) -> Path:
    if not path.is_file():
        raise ConfigError("there is no such file", path=str(path))
    return path
