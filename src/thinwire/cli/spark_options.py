"""Options and progress of commands that run on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MasterOption = Annotated[
    str, typer.Option("--master", help="Where Spark runs: local[*], spark://HOST:PORT, or sc://HOST:PORT (Connect).")
]
"""type of the parameter `master` of a command"""


def spark_session(master: str, app: str) -> SparkSession:
    """Return a Spark session, which stops at the end of a `with` block."""
    from thinwire.spark.session import session

    return session(master, app=app)


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr; yield a function that takes the finished and the total number of tasks."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None)

        yield show
