"""`thinwire bench edge`: a host under load, measured; the runs can be kept to fit models and the simulator to them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from thinwire.analysis.placement_files import write_runs
from thinwire.cli.output import Output
from thinwire.clock import WallClock
from thinwire.placement import Host
from thinwire.placement.queue_simulator import Arrivals
from thinwire_lab.live.edge.load_harness import configurations
from thinwire_lab.live.edge.load_harness_harness import Measuring, measure, scaled
from thinwire_lab.reproduce.placement.placement_figures_placement_measured import RUN_COLUMNS, run_rows

FIGURE = "1c"
SCALE = 5.0
"""by how much time is stretched, so that what the scheduler does weighs little"""


def bench_edge(
    output: Output,
    figure: str,
    measuring: Measuring,
    quick: bool,
    out: Path | None,
    arrivals: Arrivals = "poisson",
) -> None:
    """Measure parts of figure 1, and keep the runs where a file is named."""
    burning = measuring.burning
    host = Host("bench", cores=1, contention=0.0) if burning else Host("bench", cores=4)
    parts = [one for part in figure.split(",") for one in configurations(part.strip(), host)]
    wanted = [replace(scaled(one, SCALE), arrivals=arrivals) for one in parts]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"figure {figure}", total=1.0)
        some, how_long = (wanted[:2], replace(measuring, seconds=5.0, repeats=1)) if quick else (wanted, measuring)
        runs = asyncio.run(measure(some, how_long, lambda share: progress.update(task, completed=share)))
    how = f"figure {figure}, {'a processor burnt' if burning else 'cores by timer'}, time stretched {SCALE:g} times, "
    how += f"{arrivals} arrivals"
    if out is not None:
        write_runs(out, runs, WallClock(), how)
    output.table(f"figure {figure}, measured: p90 of the first topic", RUN_COLUMNS, run_rows(runs))
    output.note(f"{how}; {sum(bool(run.disturbed) for run in runs)} of {len(runs)} runs were disturbed and left out.")
    output.document({"figure": figure, "how": how, "columns": RUN_COLUMNS, "rows": run_rows(runs), "runs": len(runs)})
