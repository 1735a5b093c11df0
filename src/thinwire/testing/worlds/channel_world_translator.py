"""How a translator of a world of classes finds its way into the log: from a checkpoint, or from key frames."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from thinwire.codec import State
from thinwire.codec import stream_snapshot as checkpoints
from thinwire.errors import CorruptCheckpoint
from thinwire.testing.worlds.channel_world_publisher import Ground, Written
from thinwire.topics.log_decoder_inlet import Inlet
from thinwire.topics.names import key_subject


def decoders(ground: Ground, place: int, chance: Random) -> tuple[Inlet, int, str]:
    """Links that know what came before a place of the log, the offset to read from, and where they know it from.

    Where a round was not whole by then that replaces what was known, the place is the one before the round.
    """
    while True:
        inlet, how = _from_checkpoint(ground, place, chance) or (_rewound(ground, place), "from key frames")
        within = [name for name, link in inlet.links.items() if link.state is State.PARTIAL]
        begun = _last_keys(ground, within, place)
        if begun == place:
            inlet.offset = place - 1
            return inlet, place, how
        place = begun


def _from_checkpoint(ground: Ground, place: int, chance: Random) -> tuple[Inlet, str] | None:
    """Links brought to a place from the last checkpoint before it that tells of everybody, if there is one."""
    for written in reversed(ground.checkpoints):
        if written.offset >= place or chance.random() < 0.2 or not _tells_of_all(ground, written):
            continue
        inlet = Inlet(ground.lookup)
        try:
            for name, state in written.states.items():
                checkpoints.into_subscriber(inlet.link(name), state)
        except CorruptCheckpoint:
            ground.tell(f"the checkpoint at {written.offset} is left aside")
            continue
        inlet.offset = written.offset
        for stored in ground.log.read(written.offset + 1, place - 1 - written.offset):
            inlet.receive(stored, stored.time)
        return inlet, f"from the checkpoint at {written.offset}"
    return None


def _tells_of_all(ground: Ground, written: Written) -> bool:
    """Does a checkpoint know every publisher that had told its state by then?"""
    names = [name for name in ground.publishers().keys if name not in written.states]
    return _last_keys(ground, names, written.offset + 1) > written.offset


def _rewound(ground: Ground, place: int) -> Inlet:
    """Links brought to a place from the key frames before it; where a round was not whole, from those before."""
    begun, inlet = _last_keys(ground, ground.publishers().keys, place), Inlet(ground.lookup)
    while True:
        for stored in ground.log.read(begun, place - begun):
            inlet.receive(stored, stored.time)
        earlier = _last_keys(ground, [name for name, _ in inlet.lost()], begun)
        if earlier == begun:
            return inlet
        begun, inlet = earlier, Inlet(ground.lookup)


def _last_keys(ground: Ground, names: Iterable[str], place: int) -> int:
    """The offset from which each of the publishers begins a round before `place`; `place` where none does."""
    keys = [ground.log.last(key_subject(ground.topic, name), place - 1) for name in names]
    return min((key.offset for key in keys if key is not None), default=place)
