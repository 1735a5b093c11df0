"""`thinwire place-model train | calibrate`: latency models from simulated runs, simulated hosts from measured runs."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps as encode_json
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.cli.output import JsonOption, Output
from thinwire.cli.spark_options import MasterOption
from thinwire.clock import WallClock
from thinwire.errors import ConfigError
from thinwire.placement import Host
from thinwire_lab.cli.cell_runner import cell_runner
from thinwire_lab.placement.calibration import Calibration, calibrate
from thinwire_lab.placement.model_training import store, store_published
from thinwire_lab.placement.run_files import read_runs

place_model = typer.Typer(add_completion=False, no_args_is_help=True, help="Train and calibrate latency models.")

STORES = {"ours": store, "published": store_published}

ToOption = Annotated[Path, typer.Option("--to", help="Write the model to this JSON file.")]
RunsOption = Annotated[int, typer.Option("--runs", help="Training runs for each number of topics.", min=40)]
SeedOption = Annotated[int, typer.Option("--seed", help="Random seed.", min=0)]
StoredModelOption = Annotated[str, typer.Option("--model", help=f"Model: {' or '.join(STORES)}.")]
RunsArgument = Annotated[Path, typer.Argument(metavar="RUNS", help="Measured runs from `thinwire bench edge`.")]
HostsToOption = Annotated[Path | None, typer.Option("--to", help="Write the host to this TOML file, for --hosts.")]


@place_model.command("train")
def train_(
    to: ToOption,
    runs: RunsOption = 1000,
    seed: SeedOption = 1,
    model: StoredModelOption = "ours",
    master: MasterOption = "local[*]",
    json: JsonOption = False,
) -> None:
    """Train a latency model on simulated hosts and store it with machine, date and error.

    The simulations run on Spark if it is available, otherwise in this process.

    \b
    thinwire place-model train --to model.json --runs 1000
    """
    output = Output(json)
    if model not in STORES:
        raise ConfigError("no such model", field="model", value=model, choose_from=sorted(STORES))
    with cell_runner(master, output, app="thinwire place-model train") as sweep:
        origin = STORES[model](to, WallClock(), runs, seed, sweep)
    for name, value in origin.items():
        output.note(f"{name}: {value}")
    output.document({"model": str(to), **origin})


@place_model.command("calibrate")
def calibrate_(runs: RunsArgument, to: HostsToOption = None, json: JsonOption = False) -> None:
    """Fit a simulated host to measured runs, and print its error on held-out runs.

    \b
    thinwire place-model calibrate edge-runs.json --to hosts.toml
    """
    output = Output(json)
    found = calibrate(read_runs(runs))
    output.table("simulated against measured p90", CALIBRATION_COLUMNS, _calibration_rows(found))
    text = host_text(found.host)
    output.note(text)
    if found.test_error is None:
        output.note("no runs were held out: measure more configurations for an error estimate")
    if to is not None:
        to.write_text(text, encoding="utf-8")
    output.document({"host": asdict(found.host), "seen": found.train_error, "fresh": found.test_error})


def host_text(host: Host) -> str:
    """Return a host as an entry of a hosts file.

    >>> print(host_text(Host("box", cores=2)).splitlines()[:3])
    ['[[host]]', 'name = "box"', 'cores = 2']
    """
    known = {name: value for name, value in asdict(host).items() if value is not None}
    return "".join(["[[host]]\n", *(f"{name} = {encode_json(value)}\n" for name, value in known.items())])


CALIBRATION_COLUMNS = ("runs", "count", "topics", "R2(log)", "mean error %", "largest error %")


def _calibration_rows(found: Calibration) -> list[tuple[Any, ...]]:
    both = (("fitted", found.train_error), ("held out", found.test_error))
    return [
        (name, close.runs, close.topics, round(close.fit, 4), round(100 * close.off, 1), round(100 * close.worst, 1))
        for name, close in both
        if close is not None
    ]
