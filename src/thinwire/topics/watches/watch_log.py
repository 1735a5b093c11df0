"""The log of a watch, written by one evaluator at a time.

Every record insists on the one before: an evaluator that slept while another took over is refused, and told so by
`Superseded`. What is stored follows from what was stored before, so whoever reads the log gets each notification once.
"""

from __future__ import annotations

import asyncio
import logging

from thinwire.brokers.protocol import Broker, Retention, Stored
from thinwire.errors import BrokerRefused, BrokerUnavailable, Conflict, CorruptWatchLog, Superseded
from thinwire.topics.names import watch_log_of, watch_subject, watch_subjects
from thinwire.topics.watches.watch_evaluation import Step
from thinwire.topics.watches.watch_records import (
    MAX_RECORD,
    WatchProgress,
    read_record,
    read_state,
    records,
    write_record,
    write_state,
)

KEPT = 65_536
"""records that are kept, the oldest go first; every state is followed by fewer than that"""
PATIENCE = 2.0
"""seconds for one attempt to store a record"""
COMPLAIN_EVERY = 30.0
_MARGIN = 1_024
"""bytes of a broker's message that are not the record's"""

_log = logging.getLogger("thinwire.watching")


class WatchLog:
    """Where an evaluator finds what was told before it, and stores what it tells.

    last: the offset of the last record
    since: records since the last state
    """

    def __init__(self, broker: Broker, watch: str) -> None:
        self.watch = watch
        self.last = 0
        self.since = 0
        self._broker = broker
        self._log = watch_log_of(watch)
        self._limit = broker.capabilities.max_payload - _MARGIN
        self._read: dict[str, int] = {}
        self._complained = -COMPLAIN_EVERY

    async def open(self) -> None:
        """Make sure that there is a log."""
        await self._broker.open_log(self._log, [watch_subjects(self.watch)], Retention(seconds=None, messages=KEPT))

    async def recover(self, fingerprint: str) -> WatchProgress | None:
        """How far the watch has come by its own log; None where it has not begun."""
        self.last = (await self._broker.span(self._log)).last
        key = await self._broker.last(self._log, watch_subject(self.watch, key=True))
        if key is None:
            if await self._broker.last(self._log, watch_subjects(self.watch)) is not None:
                raise CorruptWatchLog("records without a state", watch=self.watch)
            return None
        progress = await self._advanced(key, read_state(key.payload, fingerprint))
        self._read = dict(progress.read)
        return progress

    async def write(self, step: Step) -> None:
        """Store what was found, however long it takes."""
        parts = list(records(step.messages, step.notices, min(MAX_RECORD, self._limit)))
        for number, part in enumerate(parts, start=1):
            # only the last message of all knows every publisher that was read by then
            read = dict(step.read) if number == len(parts) and step.messages else self._read
            await self._append(watch_subject(self.watch), write_record(part, read, self._limit))
            self._read = read
            self.since += 1

    async def keep(self, progress: WatchProgress) -> None:
        """Store the whole state."""
        await self._append(watch_subject(self.watch, key=True), write_state(progress, self._limit))
        self._read, self.since = dict(progress.read), 0

    async def delete(self) -> None:
        """Nobody follows the watch any more."""
        await self._broker.delete_log(self._log)

    async def _advanced(self, key: Stored, progress: WatchProgress) -> WatchProgress:
        """The state behind the last record."""
        if self.last == key.offset:
            return progress
        reader = await self._broker.read(self._log, first=key.offset + 1, subjects=[watch_subjects(self.watch)])
        state, read, offset = progress.state, progress.read, key.offset
        try:
            while offset < self.last:
                stored = await reader.next(PATIENCE)
                if stored is None:
                    continue
                record = read_record(stored.payload)
                for message in record.messages:
                    state = state.advance(message)
                read, offset = record.read, stored.offset
                self.since += 1
                reader.done(offset)
        finally:
            await reader.close()
        return WatchProgress(state, progress.begins, read)

    async def _append(self, subject: str, payload: bytes) -> None:
        """Store a record; a broker that cannot be reached is waited for."""
        while True:
            try:
                self.last = await self._stored(subject, payload)
                return
            except (BrokerUnavailable, BrokerRefused) as trouble:
                await self._wait(trouble)

    async def _stored(self, subject: str, payload: bytes) -> int:
        """The offset of a record, behind the last one."""
        within = watch_subjects(self.watch)
        try:
            return await self._broker.append(
                self._log, subject, payload, after=self.last, within=within, timeout=PATIENCE
            )
        except Conflict:
            newest = await self._broker.last(self._log, within)
            # it may be this very record, sent before an answer was lost
            if newest is None or newest.offset <= self.last or newest.payload != payload:
                raise Superseded("its log went on without this evaluator", watch=self.watch) from None
            return newest.offset

    async def _wait(self, trouble: Exception) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._complained >= COMPLAIN_EVERY:
            self._complained = now
            _log.warning("watch %s: what it tells waits and is kept. %s", self.watch, trouble)
        await asyncio.sleep(1.0)
