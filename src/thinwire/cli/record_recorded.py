"""What a recording holds, for `thinwire record --info`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from thinwire.brokers.recording import Recording, open_recording
from thinwire.cli.output import Output
from thinwire.topics.names import publisher_in, topic_of

COLUMNS = ("topic", "first", "last", "messages", "bytes", "publishers", "begins", "ends", "gaps")


def show_info(output: Output, path: Path, *, check: bool) -> None:
    """Print what is there; with `check` everything is read, and a damaged block is an error that names it."""
    with open_recording(path) as recording:
        logs = [_about(recording, log) for log in recording.logs()]
        documents = {bucket: len(recording.documents(bucket)) for bucket in recording.buckets()}
        checked = sum(_read_through(recording, log) for log in recording.logs()) if check else None
    output.table(f"recording {path}", COLUMNS, ([_cell(row[name]) for name in COLUMNS] for row in logs))
    output.table("documents", ("bucket", "documents"), documents.items())
    for row in logs:
        _tell_flaws(output, row)
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


def _tell_flaws(output: Output, row: dict[str, Any]) -> None:
    for first, last in row["gaps"]:
        output.note(f"{row['topic']}: offsets {first:,} to {last:,} were no longer in the log.")
    for cut in row["cuts"]:
        where = f"{cut['file']} is cut off at byte {cut['byte']:,}"
        output.note(f"{row['topic']}: {where}: {cut['bytes']:,} bytes there are no whole block and do not count.")


def _cell(value: Any) -> Any:
    return len(value) if isinstance(value, list) else value


def _iso(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
