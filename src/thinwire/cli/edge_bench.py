"""`thinwire bench edge`: a host under load, measured; the runs can be kept to fit models and the simulator to them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import Progress

from thinwire.cli.output import Output
from thinwire.clock import WallClock
from thinwire.evaluation.edge.figures import configurations
from thinwire.evaluation.edge.harness import Measuring, measure, scaled
from thinwire.evaluation.placement.files import write_runs
from thinwire.placement import Host
from thinwire.placement.measured import MeasuredRun

COLUMNS = ("topics", "messages/s", "ms a message", "subscribers", "p90 ms", "lowest", "highest", "runs", "disturbed")
FIGURE = "1c"
SCALE = 5.0
"""by how much time is stretched, so that what the scheduler does weighs little"""


def bench_edge(output: Output, figure: str, quick: bool, burning: bool, out: Path | None) -> None:
    """Measure a part of figure 1, and keep the runs where a file is named."""
    host = Host("bench", cores=1, contention=0.0) if burning else Host("bench", cores=4)
    measuring = Measuring(5.0, 1, burning) if quick else Measuring(20.0, 5, burning)
    wanted = [scaled(one, SCALE) for one in configurations(figure, host)]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"figure {figure}", total=1.0)
        some = wanted[:2] if quick else wanted
        runs = asyncio.run(measure(some, measuring, lambda share: progress.update(task, completed=share)))
    how = f"figure {figure}, {'a processor burnt' if burning else 'cores by timer'}, time stretched {SCALE:g} times"
    if out is not None:
        write_runs(out, runs, WallClock(), how)
    output.table(f"figure {figure}, measured: p90 of the first topic", COLUMNS, rows(runs))
    output.note(f"{how}; {sum(bool(run.disturbed) for run in runs)} of {len(runs)} runs were disturbed and left out.")
    output.document({"figure": figure, "how": how, "columns": COLUMNS, "rows": rows(runs), "runs": len(runs)})


def rows(runs: Sequence[MeasuredRun]) -> list[tuple[Any, ...]]:
    """One row a configuration: the middle of its calm runs, and their spread."""
    alike: dict[tuple[Any, ...], list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        alike[(*run.configuration, run.met[0].subscribers)].append(run)
    return [_row(some) for some in alike.values()]


def _row(runs: Sequence[MeasuredRun]) -> tuple[Any, ...]:
    first = runs[0].met[0]
    p90 = [1000 * run.met[0].p90 for run in runs if not run.disturbed]
    told = (median(p90), min(p90), max(p90)) if p90 else (None, None, None)
    about = (len(runs[0].met), first.topic.rate, 1000 * first.topic.interval, first.subscribers)
    return (*about, *told, len(p90), len(runs) - len(p90))
