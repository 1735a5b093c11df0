"""`thinwire place train | calibrate`: a latency model from simulated runs, and a simulated host from measured ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.analysis.model_training_training import store, store_published
from thinwire.analysis.placement_files import host_text, read_runs
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.spark_options import MasterOption, running
from thinwire.clock import WallClock
from thinwire.errors import ConfigError
from thinwire.placement.calibration_calibrating import Calibration, calibrate

STORES = {"ours": store, "published": store_published}

ToOption = Annotated[Path, typer.Option("--to", help="Write the model here, as JSON.")]
RunsOption = Annotated[int, typer.Option("--runs", help="Runs to train with, for each number of topics.", min=40)]
SeedOption = Annotated[int, typer.Option("--seed", help="Of all chances.", min=0)]
ModelOption = Annotated[str, typer.Option("--model", help=f"Which model: {' or '.join(STORES)}.")]
RunsArgument = Annotated[Path, typer.Argument(metavar="RUNS", help="Measured runs, as `thinwire bench edge` writes.")]
HostsToOption = Annotated[Path | None, typer.Option("--to", help="Write the host here, as TOML for --hosts.")]


def train_(
    to: ToOption,
    runs: RunsOption = 1000,
    seed: SeedOption = 1,
    model: ModelOption = "ours",
    master: MasterOption = "local[*]",
    json: JsonOption = False,
) -> None:
    """Train a latency model on simulated hosts and keep it with machine, date and error.

    Runs are simulated on Spark where it can run, else one after the other
    in this process.

    \b
    thinwire place train --to model.json --runs 1000
    """
    output = Output(json)
    if model not in STORES:
        raise ConfigError("no such model", field="model", value=model, choose_from=sorted(STORES))
    with running(master, output, app="thinwire place train") as sweep:
        origin = STORES[model](to, WallClock(), runs, seed, sweep)
    for name, value in origin.items():
        output.note(f"{name}: {value}")
    output.document({"model": str(to), **origin})


def calibrate_(runs: RunsArgument, to: HostsToOption = None, json: JsonOption = False) -> None:
    """Fit a simulated host to measured runs, and say how far it is off on runs it was not fitted to.

    \b
    thinwire place calibrate edge-runs.json --to hosts.toml
    """
    output = Output(json)
    found = calibrate(read_runs(runs))
    output.table("simulated against measured p90", COLUMNS, _rows(found))
    text = host_text(found.host)
    output.note(text)
    if found.fresh is None:
        output.note("nothing was held back: measure more configurations before you trust this")
    if to is not None:
        to.write_text(text, encoding="utf-8")
    output.document({"host": asdict(found.host), "seen": found.seen, "fresh": found.fresh})


COLUMNS = ("runs", "how many", "topics", "R2(log)", "mean off %", "worst off %")


def _rows(found: Calibration) -> list[tuple[Any, ...]]:
    both = (("fitted to", found.seen), ("held back", found.fresh))
    return [
        (name, close.runs, close.topics, round(close.fit, 4), round(100 * close.off, 1), round(100 * close.worst, 1))
        for name, close in both
        if close is not None
    ]
