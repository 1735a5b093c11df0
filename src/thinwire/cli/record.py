"""`thinwire record TOPIC... --to FOLDER`: the logs of topics into files; `--info FOLDER`: what such files hold.

What a recording holds, for `thinwire record --info`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import typer

from thinwire.brokers.recording import Recording, RecordingWriter, open_recording
from thinwire.cli.connection_options import DEFAULT_URL, NOBODY, Access, Identity, identified, read_start
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.terminal import Interruptible, run, status
from thinwire.errors import ConfigError
from thinwire.topics.names import publisher_in, topic_of
from thinwire.topics.recorder import Recorder, RecordingResult, Start, open_logs

RECORDED_COLUMNS = ("topic", "first", "last", "messages", "bytes", "publishers", "begins", "ends", "gaps")


def show_info(output: Output, path: Path, *, check: bool) -> None:
    """Print what is there; with `check` everything is read, and a damaged block is an error that names it."""
    with open_recording(path) as recording:
        logs = [_about(recording, log) for log in recording.logs()]
        documents = {bucket: len(recording.documents(bucket)) for bucket in recording.buckets()}
        checked = sum(_read_through(recording, log) for log in recording.logs()) if check else None
    output.table(
        f"recording {path}", RECORDED_COLUMNS, ([_cell(row[name]) for name in RECORDED_COLUMNS] for row in logs)
    )
    output.table("documents", ("bucket", "documents"), documents.items())
    for row in logs:
        _print_flaws(output, row)
    if checked is not None:
        output.note(f"All {checked:,} messages were read, and are as they were written.")
    output.document({"path": str(path), "logs": logs, "documents": documents, "checked": checked})


def _about(recording: Recording, log: str) -> dict[str, Any]:
    span, times = recording.span(log), recording.times(log)
    begins, ends = (_iso(time) for time in times) if times is not None else (None, None)
    return {
        "log": log,
        "topic": topic_of(log) or log,
        "first": span.first,
        "last": span.last,
        "messages": span.messages,
        "bytes": span.stored_bytes,
        "publishers": len({publisher_in(subject) for subject in recording.subjects(log, "*.*.>")}),
        "begins": begins,
        "ends": ends,
        "gaps": recording.gaps(log),
        "cuts": [{"file": str(cut.file), "byte": cut.byte, "bytes": cut.bytes} for cut in recording.cuts(log)],
    }


def _read_through(recording: Recording, log: str) -> int:
    span = recording.span(log)
    return sum(len(block.offsets) for block in recording.read_blocks(log, span.first, span.last))


def _print_flaws(output: Output, row: dict[str, Any]) -> None:
    for first, last in row["gaps"]:
        output.note(f"{row['topic']}: offsets {first:,} to {last:,} were no longer in the log.")
    for cut in row["cuts"]:
        where = f"{cut['file']} is cut off at byte {cut['byte']:,}"
        output.note(f"{row['topic']}: {where}: {cut['bytes']:,} bytes there are no whole block and do not count.")


def _cell(value: Any) -> Any:
    return len(value) if isinstance(value, list) else value


def _iso(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")


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


async def _record(wanted: _Wanted, access: Access) -> tuple[bool, Mapping[str, RecordingResult], int]:
    """Record until enough. Was it interrupted, what was copied, how many bytes were written?"""
    async with access.bus() as bus:
        await open_logs(bus.broker, wanted.topics)  # before there is a folder: an unknown topic leaves none
        with RecordingWriter(wanted.to) as out:
            recorder = Recorder(bus.broker, out, wanted.topics, checkpoints=wanted.checkpoints, tell=_print_line)
            await recorder.open(wanted.start)
            shown = status(lambda: _progress(recorder.copied), "waiting for messages")
            with Interruptible() as ending, shown, suppress(TimeoutError):
                async with asyncio.timeout(wanted.seconds):
                    await recorder.copy(until_caught_up=wanted.until_caught_up)
            await recorder.put_documents()
    return ending.interrupted, recorder.copied, out.written


def _progress(copied: Mapping[str, RecordingResult]) -> str:
    messages, behind = sum(one.messages for one in copied.values()), sum(one.behind for one in copied.values())
    size = sum(one.bytes for one in copied.values())
    return f"{messages:,} messages, {size / 1e6:,.1f} MB, {behind:,} to come"


def _show(output: Output, to: Path, copied: Mapping[str, RecordingResult], written: int) -> None:
    rows = [
        (one.topic, one.messages, one.bytes, one.since, one.last, len(one.gaps), one.behind) for one in copied.values()
    ]
    output.table(f"recorded to {to}", COLUMNS, rows)
    topics: list[dict[str, Any]] = [{**asdict(one), "behind": one.behind} for one in copied.values()]
    output.document({"path": str(to), "written": written, "topics": topics})


def _print_line(sentence: str) -> None:
    print(f"thinwire: {sentence}", file=sys.stderr)
