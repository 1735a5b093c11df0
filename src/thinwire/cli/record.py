"""`thinwire record TOPIC... --to FOLDER`: copy topic logs into files. `--info FOLDER` describes a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from thinwire.brokers.recording import Recording, RecordingWriter, open_recording
from thinwire.cli.connection_options import SecondsOption, ServersAccess, read_start
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.option_groups import option, with_options
from thinwire.cli.output import Column, Output, print_status
from thinwire.cli.terminal import run, run_for, status_line
from thinwire.errors import ConfigError
from thinwire.topics.names import publisher_in, topic_of
from thinwire.topics.recorder import Recorder, RecordingResult, Start, open_logs

_INFO_COLUMNS: dict[str, Column] = {
    **{name: name for name in ("topic", "first", "last", "messages", "bytes", "publishers", "begins", "ends")},
    "gaps": lambda log: len(log["gaps"]),
}


def _show_info(output: Output, path: Path, *, check: bool) -> None:
    """Print the content of a recording; with `check` read all of it and raise an error for a damaged block."""
    with open_recording(path) as recording:
        logs = [_describe_log(recording, log) for log in recording.logs()]
        documents = {bucket: len(recording.documents(bucket)) for bucket in recording.buckets()}
        checked = sum(_count_messages(recording, log) for log in recording.logs()) if check else None
    output.records(f"recording {path}", _INFO_COLUMNS, logs)
    output.table("documents", ("bucket", "documents"), documents.items())
    for row in logs:
        _print_gaps(output, row)
    if checked is not None:
        output.note(f"All {checked:,} messages were read and verified.")
    output.document({"path": str(path), "logs": logs, "documents": documents, "checked": checked})


def _describe_log(recording: Recording, log: str) -> dict[str, Any]:
    span, recorded = recording.span(log), recording.log(log)
    times = recorded.times()
    begins, ends = map(_format_instant, times) if times is not None else (None, None)
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
        "gaps": recorded.gaps(),
        "cuts": [
            {"file": str(cut.file), "byte": cut.index.length, "bytes": cut.truncated} for cut in recorded.truncated
        ],
    }


def _count_messages(recording: Recording, log: str) -> int:
    span = recording.span(log)
    return sum(len(block.offsets) for block in recording.read_blocks(log, span.first, span.last))


def _print_gaps(output: Output, row: dict[str, Any]) -> None:
    for first, last in row["gaps"]:
        output.note(f"{row['topic']}: offsets {first:,} to {last:,} were no longer in the log.")
    for cut in row["cuts"]:
        where = f"{cut['file']} is truncated at byte {cut['byte']:,}"
        output.note(f"{row['topic']}: {where}: an incomplete block of {cut['bytes']:,} bytes is ignored.")


def _format_instant(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")


TopicsArgument = Annotated[list[str] | None, typer.Argument(metavar="TOPIC...", help="For example building.rooms.")]


@dataclass(frozen=True)
class RecordOptions:
    to: Path | None = option(None, "A new folder, or a recording to continue.", metavar="FOLDER")
    start: str = option(
        "earliest",
        "Start of a new recording: earliest, latest, an offset, or an ISO time.",
        "--from",
        metavar="POSITION",
    )
    seconds: SecondsOption = None
    until_caught_up: bool = option(False, "Exit when all messages present at the start are copied.")
    checkpoints: bool = option(False, "Copy checkpoints too, so that a reader can start in the middle quickly.")
    info: Path | None = option(None, "Describe a recording.", metavar="FOLDER")
    check: bool = option(False, "With --info: read all messages and report damage.")


@with_options
def record(topics: TopicsArgument = None, *, options: RecordOptions, broker: ServersAccess, output: Output) -> None:
    """Copy the logs of topics into files that can be read without a broker.

    Runs until Ctrl-C, --seconds or --until-caught-up. The recording is valid
    in each case; naming the same folder again continues it. Offsets that the
    broker no longer has are reported. Exits with 130 after Ctrl-C, and with
    --info with 3 if files are damaged.

    \b
    thinwire record building.rooms --to rooms.rec --until-caught-up
    thinwire record --info rooms.rec --check
    """
    if options.info is not None:
        if topics or options.to is not None:
            raise ConfigError("--info reads a recording and takes no topics and no --to", info=str(options.info))
        _show_info(output, options.info, check=options.check)
        return
    if not topics or options.to is None:
        raise ConfigError("name the topics and --to FOLDER, or --info FOLDER")
    start = cast(Start, read_start(options.start))
    interrupted, copied, written = run(_record(topics, options.to, start, options, broker))
    _show(output, options.to, copied, written)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


async def _record(
    topics: list[str], to: Path, start: Start, options: RecordOptions, broker: ServersAccess
) -> tuple[bool, Mapping[str, RecordingResult], int]:
    """Record the topics. Return whether it was interrupted, the copied messages and the bytes written."""
    async with broker.bus() as bus:
        await open_logs(bus.broker, topics)  # before the folder is created: an unknown topic leaves no folder
        with RecordingWriter(to) as out:
            recorder = Recorder(bus.broker, out, topics, checkpoints=options.checkpoints, on_progress=print_status)
            await recorder.open(start)
            with status_line(lambda: _progress(recorder.results), "waiting for messages"):
                copying = recorder.copy(until_caught_up=options.until_caught_up)
                interrupted = await run_for(options.seconds, copying)
            await recorder.put_documents()
    return interrupted, recorder.results, out.written


def _progress(copied: Mapping[str, RecordingResult]) -> str:
    results = copied.values()
    messages, behind, size = (
        sum(getattr(result, name) for result in results) for name in ("messages", "behind", "bytes")
    )
    return f"{messages:,} messages, {size / 1e6:,.1f} MB, {behind:,} not copied yet"


_COLUMNS: dict[str, Column] = {
    "topic": "topic",
    "messages": "messages",
    "bytes": "bytes",
    "from": "since",
    "to": "last",
    "gaps": lambda result: len(result.gaps),
    "behind": "behind",
}


def _show(output: Output, to: Path, copied: Mapping[str, RecordingResult], written: int) -> None:
    output.records(f"recorded to {to}", _COLUMNS, copied.values())
    topics = [{**asdict(result), "behind": result.behind} for result in copied.values()]
    output.document({"path": str(to), "written": written, "topics": topics})
