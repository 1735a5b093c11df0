"""`thinwire record TOPIC... --to FOLDER`: copy topic logs into files. `--info FOLDER` describes a recording."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import typer

from thinwire.brokers.recording import Recording, RecordingWriter, open_recording
from thinwire.cli.connection_options import (
    DEFAULT_URL,
    NO_CREDENTIALS,
    BrokerAccess,
    Credentials,
    read_start,
    with_credentials,
)
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.output import JsonOption, Output, print_status
from thinwire.cli.terminal import Interruptible, run, status_line
from thinwire.errors import ConfigError
from thinwire.topics.names import publisher_in, topic_of
from thinwire.topics.recorder import Recorder, RecordingResult, Start, open_logs

RECORDED_COLUMNS = ("topic", "first", "last", "messages", "bytes", "publishers", "begins", "ends", "gaps")


def show_info(output: Output, path: Path, *, check: bool) -> None:
    """Print the content of a recording; with `check` read all of it and raise an error for a damaged block."""
    with open_recording(path) as recording:
        logs = [_describe_log(recording, log) for log in recording.logs()]
        documents = {bucket: len(recording.documents(bucket)) for bucket in recording.buckets()}
        checked = sum(_count_messages(recording, log) for log in recording.logs()) if check else None
    output.table(
        f"recording {path}", RECORDED_COLUMNS, ([_cell(row[name]) for name in RECORDED_COLUMNS] for row in logs)
    )
    output.table("documents", ("bucket", "documents"), documents.items())
    for row in logs:
        _print_gaps(output, row)
    if checked is not None:
        output.note(f"All {checked:,} messages were read and verified.")
    output.document({"path": str(path), "logs": logs, "documents": documents, "checked": checked})


def _describe_log(recording: Recording, log: str) -> dict[str, Any]:
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
        "cuts": [
            {"file": str(cut.file), "byte": cut.byte, "bytes": cut.bytes} for cut in recording.truncated_tails(log)
        ],
    }


def _count_messages(recording: Recording, log: str) -> int:
    span = recording.span(log)
    return sum(len(block.offsets) for block in recording.read_blocks(log, span.first, span.last))


def _print_gaps(output: Output, row: dict[str, Any]) -> None:
    for first, last in row["gaps"]:
        output.note(f"{row['topic']}: offsets {first:,} to {last:,} were not in the log any more.")
    for cut in row["cuts"]:
        where = f"{cut['file']} is truncated at byte {cut['byte']:,}"
        output.note(f"{row['topic']}: {where}: an incomplete block of {cut['bytes']:,} bytes is ignored.")


def _cell(value: Any) -> Any:
    return len(value) if isinstance(value, list) else value


def _iso(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")


TopicsArgument = Annotated[list[str] | None, typer.Argument(metavar="TOPIC...", help="For example building.rooms.")]
FolderOption = Annotated[
    Path | None, typer.Option("--to", metavar="FOLDER", help="A new folder, or a recording to continue.")
]
InfoOption = Annotated[Path | None, typer.Option("--info", metavar="FOLDER", help="Describe a recording.")]
CheckOption = Annotated[bool, typer.Option("--check", help="With --info: read all messages and report damage.")]
FromOption = Annotated[
    str,
    typer.Option(
        "--from", metavar="POSITION", help="Start of a new recording: earliest, latest, an offset, or an ISO time."
    ),
]
SecondsOption = Annotated[float | None, typer.Option("--seconds", help="Exit after this many seconds.", min=0)]
CaughtUpOption = Annotated[
    bool, typer.Option("--until-caught-up", help="Exit when all messages present at the start are copied.")
]
CheckpointsOption = Annotated[
    bool, typer.Option("--checkpoints", help="Copy checkpoints too, so that a reader can start in the middle quickly.")
]
ServersOption = Annotated[
    str, typer.Option("--servers", "--url", metavar="URL", envvar="THINWIRE_URL", help="The broker.")
]
COLUMNS = ("topic", "messages", "bytes", "from", "to", "gaps", "behind")


@with_credentials
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
    credentials: Credentials = NO_CREDENTIALS,
    json: JsonOption = False,
) -> None:
    """Copy the logs of topics into files that can be read without a broker.

    Runs until Ctrl-C, --seconds or --until-caught-up. The recording is valid
    in each case; naming the same folder again continues it. Offsets that the
    broker no longer has are reported. Exits with 130 after Ctrl-C, and with
    --info with 3 if files are damaged.

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
    access = BrokerAccess(servers, credentials)
    request = _RecordRequest(topics, to, cast(Start, read_start(start)), seconds, until_caught_up, checkpoints)
    interrupted, copied, written = run(_record(request, access))
    _show(output, to, copied, written)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


class _RecordRequest(NamedTuple):
    topics: list[str]
    to: Path
    start: Start
    seconds: float | None
    until_caught_up: bool
    checkpoints: bool


async def _record(request: _RecordRequest, access: BrokerAccess) -> tuple[bool, Mapping[str, RecordingResult], int]:
    """Record the topics. Return whether it was interrupted, the copied messages and the bytes written."""
    async with access.bus() as bus:
        await open_logs(bus.broker, request.topics)  # before the folder is created: an unknown topic leaves no folder
        with RecordingWriter(request.to) as out:
            recorder = Recorder(
                bus.broker, out, request.topics, checkpoints=request.checkpoints, on_progress=print_status
            )
            await recorder.open(request.start)
            line = status_line(lambda: _progress(recorder.results), "waiting for messages")
            with Interruptible() as block, line, suppress(TimeoutError):
                async with asyncio.timeout(request.seconds):
                    await recorder.copy(until_caught_up=request.until_caught_up)
            await recorder.put_documents()
    return block.interrupted, recorder.results, out.written


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
