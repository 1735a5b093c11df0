"""What the translators of a topic share: its logs, the lease, which classes are open, and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import NamedTuple

from thinwire.services.translator.translator_recovery import STALE_KEYS, End
from thinwire.testing.worlds.channel_world_logs_classes_world_logs import Log
from thinwire.testing.worlds.channel_world_publisher_classes_world_publishing import Tell
from thinwire.topics.channel_documents import ChannelDocument
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_decoder_inlet import Lookup
from thinwire.topics.log_position import Publishers
from thinwire.topics.log_position_envelope import Position, unseal
from thinwire.topics.names import channel_key_subject, channel_subjects, key_subject, publisher_in, publisher_subjects

TERM = 2.5
"""seconds that a lease lasts"""


@dataclass
class Lease:
    """Who translates, in which epoch, until when unless it says again that it is there."""

    holder: str = ""
    epoch: int = 0
    until: float = 0.0

    def keep(self, name: str, epoch: int, now: float) -> bool:
        """Say that the holder is there; False where it is no longer the holder."""
        if (name, epoch) != (self.holder, self.epoch):
            return False
        self.until = now + TERM
        return True

    def take(self, name: str, now: float, *, again: bool = False) -> bool:
        """Take it over once it has run out; the holder itself may begin another epoch `again`."""
        if now < self.until and not (again and self.holder == name):
            return False
        self.holder, self.until = name, now + TERM
        self.epoch += 1
        return True


class Written(NamedTuple):
    """A checkpoint of the log: the state of the links of publishers after the message at an offset."""

    offset: int
    states: dict[str, bytes]


class Copied(NamedTuple):
    """The state of a channel's readers after its message at an offset, and what that message says of itself."""

    offset: int
    epoch: int
    position: Position
    state: bytes


@dataclass
class Ground:
    """Everything at the broker.

    asked: what each reader asks; documents: how each class is served; opened: where its channel begins
    checkpoints, copies: of the log, and of channels by class and publisher
    asks: classes and publishers ("" for all) of which key frames are asked; wanted: publishers of the log likewise
    """

    topic: str
    lookup: Lookup
    tell: Tell
    log: Log = field(default_factory=Log)
    channels: Log = field(default_factory=Log)
    lease: Lease = field(default_factory=Lease)
    asked: dict[str, DemandClass] = field(default_factory=dict)
    documents: dict[str, ChannelDocument] = field(default_factory=dict)
    classes: dict[str, DemandClass] = field(default_factory=dict)
    opened: dict[str, int] = field(default_factory=dict)
    checkpoints: list[Written] = field(default_factory=list)
    copies: dict[tuple[str, str], Copied] = field(default_factory=dict)
    asks: set[tuple[str, str]] = field(default_factory=set)
    wanted: set[str] = field(default_factory=set)
    refused: int = 0

    def open(self, asked: DemandClass, epoch: int, since: int, offset: int) -> None:
        """A class has a channel, which tells what comes after `since`; its key frames come after this offset of it."""
        self.classes[asked.id] = asked
        self.documents[asked.id] = ChannelDocument(self.topic, asked.id, "open", epoch, since)
        self.opened[asked.id] = offset

    def close(self, class_id: str) -> None:
        """A class has no channel any more."""
        del self.documents[class_id], self.opened[class_id]
        self.copies = {channel: copied for channel, copied in self.copies.items() if channel[0] != class_id}

    def ends(self, class_id: str) -> dict[str, End]:
        """Where the channels of a class end, by publisher."""
        return {publisher: end for publisher in self.publishers().newest for end in self._end(class_id, publisher)}

    def publishers(self) -> Publishers:
        """What the log has of each publisher."""
        names = {publisher_in(stored.subject) for stored in self.log.read(1)}
        newest = {name: self.log.last(publisher_subjects(self.topic, name)) for name in sorted(names)}
        keys = {name: self.log.last(key_subject(self.topic, name)) for name in sorted(names)}
        return Publishers(
            {name: stored.offset for name, stored in newest.items() if stored is not None},
            {name: stored.offset for name, stored in keys.items() if stored is not None},
        )

    def spoil_checkpoint(self, chance: Random) -> None:
        """One bit of the last checkpoint is another."""
        if self.checkpoints and self.checkpoints[-1].states:
            states = self.checkpoints[-1].states
            name = chance.choice(sorted(states))
            spoilt = bytearray(states[name])
            spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)
            states[name] = bytes(spoilt)
            self.tell("a checkpoint is spoilt")

    def copy(self, class_id: str, publisher: str, offset: int, state: bytes) -> None:
        """A checkpoint of a channel after its message at this offset."""
        stored = next(self.channels.read(offset, 1))
        epoch, position, _ = unseal(stored.payload)
        self.copies[class_id, publisher] = Copied(offset, epoch, position, state)

    def epoch_before(self, class_id: str, publisher: str, offset: int) -> int:
        """The last translator that had written to a channel before this offset."""
        before = self.channels.back(channel_subjects(self.topic, class_id, publisher), offset - 1)
        return max((unseal(stored.payload)[0] for stored in before), default=0)

    def _end(self, class_id: str, publisher: str) -> Iterator[End]:
        """Where a channel ends: what one that had slept wrote behind its successor's key frames tells nothing."""
        served = self.documents[class_id].epoch if class_id in self.documents else 0
        begun, offset = 0, 0
        keys = self.channels.back(channel_key_subject(self.topic, class_id, publisher))
        for key in islice(keys, 1 + STALE_KEYS):
            begun = max(begun, unseal(key.payload)[0])
            if begun >= served:
                break
        for stored in self.channels.back(channel_subjects(self.topic, class_id, publisher)):
            offset = offset or stored.offset
            epoch, position, _ = unseal(stored.payload)
            if epoch >= begun:
                yield End(offset, epoch, position)
                return
