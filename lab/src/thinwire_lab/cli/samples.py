"""`thinwire samples [NAME]`: sample streams as JSON lines, their schemas, and their calibration."""

from __future__ import annotations

import json as json_text
from typing import Annotated, Any

import typer

from thinwire.cli.output import JsonOption, Output
from thinwire.demo import building
from thinwire.errors import ConfigError
from thinwire.schema.turtle import to_turtle
from thinwire_lab.bench.building_bench import CalibrationRow, compare_with_original
from thinwire_lab.streams.formats import FORMATS
from thinwire_lab.workload.samples import market, taxi

SAMPLES: dict[str, Any] = {"building": building, "market": market, "taxi": taxi}
"""name -> module that generates the events"""
DESCRIPTIONS = {
    "building": "a solar-thermal cooling plant, 37 measurements, one event a second",
    "market": "minute bars of stocks in whole cents, one event a trading minute and stock",
    "taxi": "positions of taxis, one event a second each, regions of 500 m by 500 m",
}

NameArgument = Annotated[str | None, typer.Argument(help="The sample. Without a name, all samples are listed.")]
CountOption = Annotated[int, typer.Option("-n", help="Number of events.", min=0)]
SeedOption = Annotated[int, typer.Option("--seed", help="Random seed.", min=0)]
SourcesOption = Annotated[
    int, typer.Option("--sources", help="Number of plants, stocks or taxis.", min=1, max=taxi.MAX_SOURCES)
]
SchemaOption = Annotated[bool, typer.Option("--schema", help="Print the schema instead of events.")]
TurtleOption = Annotated[bool, typer.Option("--turtle", help="Print the schema as RDF in Turtle.")]
CalibrationOption = Annotated[bool, typer.Option("--calibration", help="Compare with the original's published sizes.")]
EventsOption = Annotated[int, typer.Option("--events", help="Events of the calibration.", min=2)]


def samples(
    name: NameArgument = None,
    count: CountOption = 10,
    seed: SeedOption = 1,
    sources: SourcesOption = 1,
    schema: SchemaOption = False,
    turtle: TurtleOption = False,
    calibration: CalibrationOption = False,
    events: EventsOption = 20_000,
    json: JsonOption = False,
) -> None:
    """Write sample events as JSON lines, or list the samples."""
    output = Output(json)
    if name is None:
        output.table("samples", ("name", "what"), DESCRIPTIONS.items())
        output.document({"samples": [{"name": name, "what": what} for name, what in DESCRIPTIONS.items()]})
        return
    if name not in SAMPLES:
        raise ConfigError("no such sample", sample=name, choose_from=sorted(SAMPLES))
    module = SAMPLES[name]
    if schema or turtle:
        print(to_turtle(module.schema()) if turtle else json_text.dumps(module.schema().to_document(), indent=2))
    elif calibration:
        if name != "building":
            raise ConfigError("this sample has no published original", sample=name)
        _calibration(output, name, compare_with_original(events, seed))
    elif json:
        output.document({"sample": name, "seed": seed, "events": list(module.events(count, seed, sources))})
    else:
        for event in module.events(count, seed, sources):
            print(FORMATS["json"].encode(event, module.schema()).decode())


def _calibration(output: Output, name: str, rows: list[CalibrationRow]) -> None:
    columns = ("what", "measured", "unit", "published", "low", "high", "within")
    cells = [(r.what, r.measured, r.unit, r.published, r.low, r.high, _verdict(r)) for r in rows]
    output.table(f"{name}: generated and published", columns, cells)
    output.document({"sample": name, "rows": [dict(zip(columns, row, strict=True)) for row in cells]})


def _verdict(row: CalibrationRow) -> str | None:
    if row.low is None and row.high is None:
        return None
    return "within" if row.within else "outside"
