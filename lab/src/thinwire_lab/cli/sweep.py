"""`thinwire sweep`: run a function over a grid of parameters, on Spark."""

from __future__ import annotations

import json as json_text
import sys
import tomllib
from collections.abc import Mapping
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.cli.output import JsonOption, Output, write_atomically
from thinwire.cli.spark_options import MasterOption, progress_bar, spark_session
from thinwire.errors import ConfigError

FunctionArgument = Annotated[str, typer.Argument(help="The function, as module:function.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="A parameter and its values: name=1,2,3.")]
GridOption = Annotated[Path | None, typer.Option("--grid", help="A TOML file: name = [values] for every parameter.")]
ToOption = Annotated[Path | None, typer.Option("--to", help="Write the results to this Parquet file.")]


def sweep(
    function: FunctionArgument,
    set_: SetOption = None,
    grid: GridOption = None,
    to: ToOption = None,
    master: MasterOption = "local[*]",
    json: JsonOption = False,
) -> None:
    """Run a function on every combination of its parameters, as one Spark job.

    The function returns values by name. A cell that fails has an error and does not affect the others. The exit code
    is 1 if a cell failed.
    """
    output = Output(json)
    called = find(function)
    cells = _cells(set_ or [], grid)
    from thinwire.spark.parameter_sweep import sweep as run
    from thinwire.spark.parameter_sweep import table

    with spark_session(master, "thinwire sweep") as spark, progress_bar(f"{len(cells):,} cells") as progress:
        results = run(spark, called, cells, progress=progress)
    found = table(results)
    if to is not None:
        _write(found, to)
    failed = [result for result in results if result.error is not None]
    output.table(function, found.column_names, zip(*(column.to_pylist() for column in found.columns), strict=True))
    output.document({"function": function, "rows": found.to_pylist(), "failed": len(failed)})
    if failed:
        output.note(f"{len(failed)} of {len(results)} cells failed; see the column error")
        raise typer.Exit(1)


def find(name: str) -> Any:
    """Import a function named as module:function, also from the working directory."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ConfigError("expected module:function", function=name)
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"no such function: {error}", function=name) from None
    if not callable(found):
        raise ConfigError("not a function", function=name)
    return found


def _cells(settings: list[str], path: Path | None) -> list[dict[str, Any]]:
    from thinwire.spark.parameter_sweep import grid

    choices = _read(path) if path is not None else {}
    choices |= dict(map(_parsed, settings))
    if not choices:
        raise ConfigError("no parameters: use --set name=1,2,3 or --grid FILE", set=[])
    return grid(**choices)


def _read(path: Path) -> dict[str, list[Any]]:
    try:
        document: Mapping[str, Any] = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"invalid TOML: {error}", grid=str(path)) from None
    for name, values in document.items():
        if not isinstance(values, list) or not values:
            raise ConfigError("a parameter of a grid must be a list of values", grid=str(path), parameter=name)
    return dict(document)


def _parsed(setting: str) -> tuple[str, list[Any]]:
    """Parse a parameter of the command line. Values that are not JSON are text.

    >>> _parsed("level=exact,0.5,true")
    ('level', ['exact', 0.5, True])
    """
    name, equals, values = setting.partition("=")
    if not name or not equals or not values:
        raise ConfigError("expected name=value,value", set=setting)
    return name, [_value(text) for text in values.split(",")]


def _value(text: str) -> Any:
    try:
        return json_text.loads(text)
    except ValueError:
        return text


def _write(table: Any, path: Path) -> None:
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet = BytesIO()
    pq.write_table(table, parquet)
    write_atomically(path, parquet.getvalue())
