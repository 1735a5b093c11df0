"""The log of a watch: notification records and, at intervals, state records.

Every append is fenced, so an evaluator that lost its lease is refused with `Superseded`. Each record follows from the
records before it; a reader of the log therefore receives every notification once, also across a takeover.
"""

from __future__ import annotations

import logging

from thinwire.brokers.protocol import Broker, Retention, Stored
from thinwire.errors import CorruptWatchLog, Superseded
from thinwire.topics.fenced_writer import FencedWriter, RetryWarnings
from thinwire.topics.names import watch_log_of, watch_subject, watch_subjects
from thinwire.topics.watches.watch_records import (
    MAX_RECORD,
    WatchProgress,
    WatchStep,
    decode_record,
    decode_state,
    encode_record,
    encode_state,
    split_records,
)

MAX_RECORDS = 65_536
"""records that retention keeps; two state records are always closer together than this"""
READ_TIMEOUT = 2.0
"""seconds to wait for one record during recovery"""
_MARGIN = 1_024
"""bytes of a broker message that are not available for the record"""

_log = logging.getLogger("thinwire.watching")


class WatchLog:
    """Restores the progress of a watch from its log and appends new records.

    since_state: number of records after the last state record
    """

    def __init__(self, broker: Broker, watch: str) -> None:
        self.watch = watch
        self.since_state = 0
        self._broker = broker
        self._log = watch_log_of(watch)
        self._limit = broker.capabilities.max_payload - _MARGIN
        self._read: dict[str, int] = {}
        self._writer = FencedWriter(
            broker,
            self._log,
            watch_subjects(watch),
            superseded=lambda _: Superseded("another evaluator has written to the log of the watch", watch=watch),
            on_retry=RetryWarnings(_log, lambda: f"cannot write the log of watch {watch}"),
            always_fenced=True,
            allow_truncated=False,
        )

    @property
    def last(self) -> int:
        """Offset of the last record."""
        return self._writer.last

    async def open(self) -> None:
        """Create the log if it does not exist."""
        retention = Retention(seconds=None, messages=MAX_RECORDS)
        await self._broker.open_log(self._log, [watch_subjects(self.watch)], retention)

    async def recover(self, fingerprint: str) -> WatchProgress | None:
        """Return the progress after the last record; None for a new watch."""
        self._writer.last = (await self._broker.span(self._log)).last
        key = await self._broker.last(self._log, watch_subject(self.watch, key=True))
        if key is None:
            if await self._broker.last(self._log, watch_subjects(self.watch)) is not None:
                raise CorruptWatchLog("records without a state", watch=self.watch)
            return None
        progress = await self._replay(key, decode_state(key.payload, fingerprint))
        self._read = dict(progress.read)
        return progress

    async def write_step(self, step: WatchStep) -> None:
        """Append the messages and notices of an evaluation step. Retries while the broker is unavailable."""
        parts = list(split_records(step.messages, step.notices, min(MAX_RECORD, self._limit)))
        for number, part in enumerate(parts, start=1):
            # Only the last message of the step covers every publisher up to the offsets in `step.read`.
            read = dict(step.read) if number == len(parts) and step.messages else self._read
            await self._writer.append(watch_subject(self.watch), encode_record(part, read, self._limit))
            self._read = read
            self.since_state += 1

    async def write_state(self, progress: WatchProgress) -> None:
        """Append a state record."""
        await self._writer.append(watch_subject(self.watch, key=True), encode_state(progress, self._limit))
        self._read, self.since_state = dict(progress.read), 0

    async def delete(self) -> None:
        await self._broker.delete_log(self._log)

    async def _replay(self, key: Stored, progress: WatchProgress) -> WatchProgress:
        """Apply the records after a state record to its progress."""
        if self.last == key.offset:
            return progress
        reader = await self._broker.read(self._log, first=key.offset + 1, subjects=[watch_subjects(self.watch)])
        state, read, offset = progress.state, progress.read, key.offset
        try:
            while offset < self.last:
                stored = await reader.next(READ_TIMEOUT)
                if stored is None:
                    continue
                record = decode_record(stored.payload)
                for message in record.messages:
                    state = state.advance(message)
                read, offset = record.read, stored.offset
                self.since_state += 1
                reader.done(offset)
        finally:
            await reader.close()
        return WatchProgress(state, progress.begins, read)
