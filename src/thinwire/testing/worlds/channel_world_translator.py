"""How a translator of a world of classes finds its way into the log: from a checkpoint, or from key frames.

A translator of a world of classes: it dies between two writes, pauses before one, wakes too late, and is succeeded.

The procedure is the service's (`thinwire.services.translator`), without an event loop: who has the lease finds where
its channels end, brings its decoders there from a checkpoint or from key frames, and goes on. The first message to a
channel, and any a second after the one before was decided, insists on that one; what was long on its way is looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from random import Random
from typing import NamedTuple

from thinwire.brokers.protocol import ANY
from thinwire.codec import State
from thinwire.codec import stream_snapshot as checkpoints
from thinwire.errors import Conflict, CorruptCheckpoint
from thinwire.services.translator.channel_plan import ChannelPlan, ServingDecision
from thinwire.services.translator.channel_writer import ChannelMessage
from thinwire.services.translator.translation import Translation
from thinwire.services.translator.translator_recovery import ChannelEnd, find_first_unsent
from thinwire.testing.worlds.channel_world_publisher import ChannelWorldBroker, LogCheckpoint
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.fenced_writer import FENCE_INTERVAL
from thinwire.topics.log_decoder import LogDecoder
from thinwire.topics.names import channel_data_subject, channel_key_subject, channel_subjects, key_subject
from thinwire.topics.position import Position


def decoders(ground: ChannelWorldBroker, place: int, chance: Random) -> tuple[LogDecoder, int, str]:
    """Links that know what came before a place of the log, the offset to read from, and where they know it from.

    Where a round was not whole by then that replaces what was known, the place is the one before the round.
    """
    while True:
        log_decoder, how = _from_checkpoint(ground, place, chance) or (_rewound(ground, place), "from key frames")
        within = [name for name, link in log_decoder.decoders.items() if link.state is State.PARTIAL]
        begun = _last_keys(ground, within, place)
        if begun == place:
            log_decoder.offset = place - 1
            return log_decoder, place, how
        place = begun


def _from_checkpoint(ground: ChannelWorldBroker, place: int, chance: Random) -> tuple[LogDecoder, str] | None:
    """Links brought to a place from the last checkpoint before it that tells of everybody, if there is one."""
    for written in reversed(ground.checkpoints):
        if written.offset >= place or chance.random() < 0.2 or not _covers_all_publishers(ground, written):
            continue
        log_decoder = LogDecoder(ground.lookup)
        try:
            for name, state in written.states.items():
                checkpoints.restore_decoder(log_decoder.decoder(name), state)
        except CorruptCheckpoint:
            ground.tell(f"the checkpoint at {written.offset} is left aside")
            continue
        log_decoder.offset = written.offset
        for stored in ground.log.read(written.offset + 1, place - 1 - written.offset):
            log_decoder.receive(stored, stored.time)
        return log_decoder, f"from the checkpoint at {written.offset}"
    return None


def _covers_all_publishers(ground: ChannelWorldBroker, written: LogCheckpoint) -> bool:
    """Does a checkpoint know every publisher that had told its state by then?"""
    names = [name for name in ground.publishers().keys if name not in written.states]
    return _last_keys(ground, names, written.offset + 1) > written.offset


def _rewound(ground: ChannelWorldBroker, place: int) -> LogDecoder:
    """Links brought to a place from the key frames before it; where a round was not whole, from those before."""
    begun, log_decoder = _last_keys(ground, ground.publishers().keys, place), LogDecoder(ground.lookup)
    while True:
        for stored in ground.log.read(begun, place - begun):
            log_decoder.receive(stored, stored.time)
        earlier = _last_keys(ground, [name for name, _ in log_decoder.waiting()], begun)
        if earlier == begun:
            return log_decoder
        begun, log_decoder = earlier, LogDecoder(ground.lookup)


def _last_keys(ground: ChannelWorldBroker, names: Iterable[str], place: int) -> int:
    """The offset from which each of the publishers begins a round before `place`; `place` where none does."""
    keys = [ground.log.last(key_subject(ground.topic, name), place - 1) for name in names]
    return min((key.offset for key in keys if key is not None), default=place)


_GRACE = 3.0
_NEVER = -1e300


class _Write(NamedTuple):
    """A write that is decided: where to, and what it insists on."""

    channel: tuple[str, str]
    subject: str
    payload: bytes
    after: int
    decided: float


class TranslatingSite:
    """One instance.

    dies_in, pauses_in: writes until it does, None for not at all; pause: for how many seconds
    """

    def __init__(self, name: str, ground: ChannelWorldBroker, chance: Random) -> None:
        self.name = name
        self.dies_in: int | None = None
        self.pauses_in: int | None = None
        self.pause = 0.0
        self._ground = ground
        self._chance = chance
        self._reading = chance.choice((2, 5, 50))
        self._limit = chance.choice((40, 200, 65_536))
        self._back_at = _NEVER
        self._stop()

    def _stop(self) -> None:
        """Forget everything."""
        self._translation: Translation | None = None
        self._epoch = 0
        self._next = 1
        self._copying = False
        self._opened: set[str] = set()
        self._beginning: dict[str, tuple[int, int]] = {}
        self._plan = ChannelPlan(_GRACE)
        self._queue: deque[ChannelMessage] = deque()
        self._decided: _Write | None = None
        self._ends: dict[tuple[str, str], tuple[int, float]] = {}

    def work(self, now: float) -> None:
        """Do what a lease holder does, or try to become one."""
        if now < self._back_at:
            return
        # whoever wakes finishes what it was doing before it looks around
        if not self._write_all(now):
            return
        if self._translation is not None and not self._ground.lease.keep(self.name, self._epoch, now):
            self._ground.tell(f"{self.name} finds that it was replaced")
            self._stop()
        if self._translation is None and self._ground.lease.take(self.name, now):
            self._begin(now)
        if self._translation is not None:
            self._translate(self._translation, now)

    def recover(self) -> None:
        """No more trouble from now on."""
        self.dies_in = self.pauses_in = None
        self._back_at = _NEVER
        self._reading = 1_000

    def write_down(self) -> None:
        """Take a checkpoint of everything next time."""
        self._copying = self._translation is not None

    def _begin(self, now: float) -> None:
        """Another epoch: go on where the channels end."""
        ground = self._ground
        self._stop()
        self._epoch = ground.lease.epoch
        asked = {one.id: one for one in ground.asked.values()}
        resumed = {class_id: asked[class_id] for class_id in ground.documents if class_id in asked}
        ends = {class_id: ground.ends(class_id) for class_id in resumed}
        place = find_first_unsent(ends, ground.documents, ground.publishers(), ground.log.end + 1)
        log_decoder, self._next, how = decoders(ground, place, self._chance)
        self._translation = Translation(ground.topic, ground.lookup, epoch=self._epoch, log_decoder=log_decoder)
        ground.tell(f"{self.name} begins epoch {self._epoch} at {self._next} for {place}, {how}")
        for class_id, one in resumed.items():
            self._beginning[class_id] = (ground.documents[class_id].since, ground.opened[class_id])
            begins = {name: end.position for name, end in ends[class_id].items() if end.position is not None}
            self._open(one, begins, ends[class_id])
        self._plan.resume(resumed.values())

    def _open(self, asked: DemandClass, begins: Mapping[str, Position] | None, ends: Mapping[str, ChannelEnd]) -> None:
        assert self._translation is not None
        self._translation.open(asked, begins)
        self._opened.add(asked.id)
        self._ends |= {(asked.id, name): (end.offset, _NEVER) for name, end in ends.items()}

    def _translate(self, translation: Translation, now: float) -> None:
        self._serve(translation, now)
        for stored in self._ground.log.read(self._next, self._reading):
            translation.receive(stored)
        self._next = min(self._next + self._reading, self._ground.log.end + 1)
        links = translation.log_decoder.decoders
        self._ground.wanted |= {name for name, link in links.items() if link.poll(now)}
        copying = self._copying
        for channel in translation.list_channels() if copying else ():
            translation.send_suppressed(*channel)
        self._queue.extend(translation.take_messages(self._limit))
        if self._write_all(now) and copying:
            self._copy(translation)

    def _serve(self, translation: Translation, now: float) -> None:
        """Open what is asked for, close what nobody has asked for in a while, answer who is lost."""
        ground = self._ground
        served = self._plan.update({one.id: ServingDecision(one, "open") for one in ground.asked.values()}, now)
        for class_id in sorted(self._opened - served.keys()):
            translation.close(class_id)
            self._opened.discard(class_id)
        for class_id, (since, offset) in self._beginning.items():  # its key frames are stored by now
            ground.open(served[class_id].demand, self._epoch, since, offset)
        self._beginning.clear()
        for class_id in sorted(ground.documents.keys() - served.keys()):
            ground.tell(f"{self.name} says that class {class_id} is closed")
            ground.close(class_id)
        for class_id in sorted(served.keys() - self._opened):
            ground.tell(f"{self.name} opens class {class_id}")
            self._open(served[class_id].demand, None, ground.ends(class_id))
            self._beginning[class_id] = (self._next - 1, ground.channels.end)
        for class_id, publisher in sorted(ground.asks):
            if class_id in self._opened:
                translation.request_key_frames(class_id, publisher)
        ground.asks.clear()

    def _copy(self, translation: Translation) -> None:
        """A checkpoint of all links that know where they are, and of all channels."""
        ground, self._copying = self._ground, False
        links = translation.log_decoder.decoders.items()
        states = {name: checkpoints.snapshot_decoder(link) for name, link in links if link.state is State.READY}
        ground.checkpoints.append(LogCheckpoint(self._next - 1, states))
        for channel in translation.list_channels():
            publisher = translation.find_stream(*channel)
            if publisher is not None and channel[0] in ground.documents:
                ground.copy(*channel, self._ends[channel][0], checkpoints.snapshot_encoder(publisher))
        ground.tell(f"{self.name} writes down {sorted(states)} at {self._next - 1}, and {sorted(ground.copies)}")

    def _write_all(self, now: float) -> bool:
        """Store what is waiting, one after the other, as long as nothing happens; True when all of it is stored."""
        while self._decided is not None or self._queue:
            if self._decided is None:
                self._decided = self._decide(self._queue.popleft(), now)
                if self._interrupted(now):
                    return False
            write, self._decided = self._decided, None
            if not self._store(write, now):
                return False
        return True

    def _decide(self, message: ChannelMessage, now: float) -> _Write:
        channel = (message.class_id, message.publisher)
        last, acknowledged = self._ends.get(channel, (0, _NEVER))
        name = channel_key_subject if message.key else channel_data_subject
        fenced = now - acknowledged >= FENCE_INTERVAL
        return _Write(channel, name(self._ground.topic, *channel), message.payload, last if fenced else ANY, now)

    def _interrupted(self, now: float) -> bool:
        """Does something happen between this decision and the write?"""
        if self.dies_in is not None:
            self.dies_in -= 1
            if self.dies_in < 0:
                self._ground.tell(f"{self.name} dies with {len(self._queue) + 1} messages unwritten")
                self.dies_in = None
                self._back_at = now + self._chance.choice((0.5, 5.0))
                self._stop()
                return True
        if self.pauses_in is not None:
            self.pauses_in -= 1
            if self.pauses_in < 0:
                self._ground.tell(f"{self.name} pauses for {self.pause} with {len(self._queue) + 1} messages to write")
                self.pauses_in = None
                self._back_at = now + self.pause
                return True
        return False

    def _store(self, write: _Write, now: float) -> bool:
        ground = self._ground
        within = channel_subjects(ground.topic, *write.channel)
        try:
            offset = ground.channels.append(write.subject, write.payload, now, after=write.after, within=within)
            self._check(write, within, offset, now)
        except Conflict:
            ground.refused += 1
            ground.tell(f"{self.name} is refused by {write.channel}")
            if self._holds() and ground.lease.take(self.name, now, again=True):
                self._begin(now)
            else:
                self._stop()
            return False
        self._ends[write.channel] = (offset, write.decided)
        return True

    def _check(self, write: _Write, within: str, offset: int, now: float) -> None:
        """A message was long on its way, and insisted on nothing: has somebody else written before it?"""
        last, sent = self._ends.get(write.channel, (0, _NEVER))
        if write.after == ANY and now - sent >= FENCE_INTERVAL:
            before = self._ground.channels.last(within, offset - 1)
            if before is not None and before.offset > last:
                raise Conflict(last=before.offset)

    def _holds(self) -> bool:
        return (self._ground.lease.holder, self._ground.lease.epoch) == (self.name, self._epoch)
