"""`thinwire doctor [URL]`: is everything as it should be, here and at the broker, and if not, what helps?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thinwire.cli.connection_options import NOBODY, Identity, identified
from thinwire.cli.connection_options_live import Access
from thinwire.cli.doctor_broker_checks import broker
from thinwire.cli.doctor_machine_checks import Check, embedded_broker, machine
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.terminal import run

COLUMNS = ("check", "verdict", "found", "remedy")

UrlArgument = Annotated[
    str | None, typer.Argument(metavar="URL", envvar="THINWIRE_URL", help="The broker; without it only this machine.")
]
DirectoryOption = Annotated[
    Path | None, typer.Option("--dir", metavar="DIR", help="Also look at the disk of this directory.")
]
QuickOption = Annotated[bool, typer.Option("--quick", help="Start no broker to try it.")]


@identified
def doctor(
    url: UrlArgument = None,
    directory: DirectoryOption = None,
    quick: QuickOption = False,
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Look at this machine, and at the broker at URL, and say what helps.

    Leaves with 0 if nothing fails, with 1 otherwise; warnings do not count.

    \b
    thinwire doctor
    thinwire doctor nats://broker:4222 --json
    """
    output = Output(json)
    access = None if url is None else Access(url, who)
    checks = run(_look(directory, quick, access))
    output.table("doctor", COLUMNS, checks)
    failed = [check.name for check in checks if check.verdict == "fail"]
    output.note(f"to repair: {', '.join(failed)}" if failed else "nothing fails")
    output.document({"fine": not failed, "checks": [dict(zip(COLUMNS, check, strict=True)) for check in checks]})
    if failed:
        raise typer.Exit(1)


async def _look(directory: Path | None, quick: bool, access: Access | None) -> list[Check]:
    checks = machine(directory)
    if not quick:
        checks.append(await embedded_broker())
    return checks if access is None else [*checks, *await broker(access)]
