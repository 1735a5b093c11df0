"""Cost of reading a recording, and savings and cost of compressing its payloads.

    python lab/benchmarks/recordings.py [EVENTS]

Bias: frames of a generated building of twenty plants, in this process, from a file that is in the memory of the system,
so that processor work is compared, not a disk. Times are processor time; only their ratios are valid. A reader of JSON
would parse JSON lines of the same events.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from thinwire.brokers.protocol import StoredMessage
from thinwire.brokers.recording import RecordingWriter, open_recording
from thinwire.brokers.recording.recording_writer import BLOCK
from thinwire.codec import Demand, StreamConfig, StreamEncoder
from thinwire.demo import building
from thinwire.wire import join

LOG = "tw_log_plant"
TOLERANCE, SOURCES = 0.5, 20
COLUMNS = ("batch", "payload", "on disk", "packed", "blocks", "read", "inflate")
"""events per message; bytes per event as frames and in files; share of the frames after zlib; us per event to read"""


def main(events: int = 100_000) -> None:
    """Print a row for each number of events in a message."""
    sample = list(building.events(events, 1, SOURCES))
    lines = [json.dumps(event, default=str) for event in sample]
    parsing = _cost(lambda: [json.loads(line) for line in lines]) / events * 1e6
    print(f"json.loads of the same events: {parsing:.3f} us an event, {sum(map(len, lines)) / events:.0f} bytes")
    print(" ".join(f"{name:>8}" for name in COLUMNS))
    for batch in (1, 8, 64):
        with TemporaryDirectory() as folder:
            print(_row(Path(folder), messages(sample, batch), batch, events))


def messages(sample: list[dict[str, Any]], batch: int) -> list[StoredMessage]:
    """Return the messages of a log with `batch` events in each."""
    publisher = StreamEncoder(building.schema(), StreamConfig(demand=Demand(default_tolerance=TOLERANCE)), name="p1")
    log, frames = [], publisher.start(0.0)
    for number, event in enumerate(sample, 1):
        frames += publisher.publish(event, number / 1000)
        if frames and number % batch == 0:
            log.append(StoredMessage(len(log) + 1, "tw.log.plant.p1.d", join(frames), 1.7e9 + number / 1000))
            frames = []
    return log


def _row(folder: Path, log: list[StoredMessage], batch: int, events: int) -> str:
    with RecordingWriter(folder, sync="never") as out:
        for stored in log:
            out.append(LOG, stored)
    payload = b"".join(stored.payload for stored in log)
    parts = [payload[at : at + BLOCK] for at in range(0, len(payload), BLOCK)]
    packed = [zlib.compress(part, 6) for part in parts]
    with open_recording(folder) as recording:
        end = recording.span(LOG).last
        costs = (
            _cost(lambda: list(recording.read_blocks(LOG, 1, end))),
            _cost(lambda: list(recording.read(LOG, 1, end))),
            _cost(lambda: [zlib.decompress(part) for part in packed]),
        )
    sizes = (len(payload) / events, out.written / events, sum(map(len, packed)) / len(payload))
    cells = (*(f"{size:8.2f}" for size in sizes), *(f"{cost / events * 1e6:8.3f}" for cost in costs))
    return " ".join((f"{batch:8}", *cells))


def _cost(work: Callable[[], object], times: int = 7) -> float:
    """Return the processor seconds, the minimum of several tries."""
    tries = []
    for _ in range(times):
        started = time.process_time()
        work()
        tries.append(time.process_time() - started)
    return min(tries)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
