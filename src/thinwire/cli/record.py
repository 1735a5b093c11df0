"""`thinwire record TOPIC... --to FOLDER`: the logs of topics into files; `--info FOLDER`: what such files hold."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import typer

from thinwire.brokers.recording import RecordingWriter
from thinwire.cli.connection_options import NOBODY, Identity, identified
from thinwire.cli.connection_options_live import DEFAULT_URL, Access
from thinwire.cli.connection_options_places import read_start
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.record_recorded import show_info
from thinwire.cli.terminal import Interruptible, run
from thinwire.cli.terminal_status import status
from thinwire.errors import ConfigError
from thinwire.topics.recorder import Recorder, open_logs
from thinwire.topics.recorder_copied import Copied
from thinwire.topics.recorder_places import Start

TopicsArgument = Annotated[list[str] | None, typer.Argument(metavar="TOPIC...", help="Such as building.rooms.")]
FolderOption = Annotated[
    Path | None, typer.Option("--to", metavar="FOLDER", help="A new folder, or a recording that goes on.")
]
InfoOption = Annotated[Path | None, typer.Option("--info", metavar="FOLDER", help="Say what a recording holds.")]
CheckOption = Annotated[bool, typer.Option("--check", help="With --info: read all of it, and name what is damaged.")]
FromOption = Annotated[
    str,
    typer.Option(
        "--from", metavar="PLACE", help="Where a new one begins: earliest, latest, an offset, or an ISO time."
    ),
]
SecondsOption = Annotated[float | None, typer.Option("--seconds", help="Leave after so many seconds.", min=0)]
CaughtUpOption = Annotated[
    bool, typer.Option("--until-caught-up", help="Leave when everything is copied that is there now.")
]
CheckpointsOption = Annotated[
    bool, typer.Option("--checkpoints", help="Copy checkpoints too: reading from the middle costs less.")
]
ServersOption = Annotated[
    str, typer.Option("--servers", "--url", metavar="URL", envvar="THINWIRE_URL", help="The broker.")
]
COLUMNS = ("topic", "messages", "bytes", "from", "to", "gaps", "behind")


@identified
def record(
    topics: TopicsArgument = None,
    to: FolderOption = None,
    start: FromOption = "earliest",
    seconds: SecondsOption = None,
    until_caught_up: CaughtUpOption = False,
    checkpoints: CheckpointsOption = False,
    info: InfoOption = None,
    check: CheckOption = False,
    servers: ServersOption = DEFAULT_URL,
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Copy the logs of topics into files that are read without a broker.

    Runs until Ctrl-C, --seconds or --until-caught-up; the recording is
    complete in any case, and goes on where it ended when the same folder
    is named again. What the broker no longer had is said. Leaves with 130
    after Ctrl-C, and with --info with 3 where files are damaged.

    \b
    thinwire record building.rooms --to rooms.rec --until-caught-up
    thinwire record --info rooms.rec --check
    """
    output = Output(json)
    if info is not None:
        if topics or to is not None:
            raise ConfigError("--info reads a recording and takes no topics and no --to", info=str(info))
        show_info(output, info, check=check)
        return
    if not topics or to is None:
        raise ConfigError("name the topics and --to FOLDER, or --info FOLDER")
    access = Access(servers, who)
    wanted = _Wanted(topics, to, cast(Start, read_start(start)), seconds, until_caught_up, checkpoints)
    interrupted, copied, written = run(_record(wanted, access))
    _show(output, to, copied, written)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


class _Wanted(NamedTuple):
    """What is to be recorded, and for how long."""

    topics: list[str]
    to: Path
    start: Start
    seconds: float | None
    until_caught_up: bool
    checkpoints: bool


async def _record(wanted: _Wanted, access: Access) -> tuple[bool, Mapping[str, Copied], int]:
    """Record until enough. Was it interrupted, what was copied, how many bytes were written?"""
    async with access.bus() as bus:
        await open_logs(bus.broker, wanted.topics)  # before there is a folder: an unknown topic leaves none
        with RecordingWriter(wanted.to) as out:
            recorder = Recorder(bus.broker, out, wanted.topics, checkpoints=wanted.checkpoints, tell=_tell)
            await recorder.open(wanted.start)
            shown = status(lambda: _progress(recorder.copied), "waiting for messages")
            with Interruptible() as ending, shown, suppress(TimeoutError):
                async with asyncio.timeout(wanted.seconds):
                    await recorder.copy(until_caught_up=wanted.until_caught_up)
            await recorder.put_documents()
    return ending.interrupted, recorder.copied, out.written


def _progress(copied: Mapping[str, Copied]) -> str:
    messages, behind = sum(one.messages for one in copied.values()), sum(one.behind for one in copied.values())
    size = sum(one.bytes for one in copied.values())
    return f"{messages:,} messages, {size / 1e6:,.1f} MB, {behind:,} to come"


def _show(output: Output, to: Path, copied: Mapping[str, Copied], written: int) -> None:
    rows = [
        (one.topic, one.messages, one.bytes, one.since, one.last, len(one.gaps), one.behind) for one in copied.values()
    ]
    output.table(f"recorded to {to}", COLUMNS, rows)
    topics: list[dict[str, Any]] = [{**asdict(one), "behind": one.behind} for one in copied.values()]
    output.document({"path": str(to), "written": written, "topics": topics})


def _tell(sentence: str) -> None:
    print(f"thinwire: {sentence}", file=sys.stderr)
