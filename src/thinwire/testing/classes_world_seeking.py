"""How a translator of a world of classes finds its way into the log: from a checkpoint, or from key frames."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from thinwire.control.logs.inlet import Inlet
from thinwire.control.names import key_subject
from thinwire.errors import CorruptCheckpoint
from thinwire.link import checkpoints
from thinwire.testing.classes_world_ground import Ground


def decoders(ground: Ground, place: int, chance: Random) -> tuple[Inlet, int, str]:
    """Links that know what came before a place of the log, the offset to read from, and where they know it from."""
    for written in reversed(ground.checkpoints):
        if written.offset >= place or chance.random() < 0.2:
            continue
        inlet = Inlet(ground.lookup)
        try:
            for name, state in written.states.items():
                checkpoints.into_subscriber(inlet.link(name), state)
        except CorruptCheckpoint:
            ground.tell(f"the checkpoint at {written.offset} is left aside")
            continue
        inlet.offset = written.offset
        return inlet, written.offset + 1, f"from the checkpoint at {written.offset}"
    return _rewound(ground, place), place, "from key frames"


def _rewound(ground: Ground, place: int) -> Inlet:
    """Links brought to a place from the key frames before it; where a round was not whole, from those before."""
    begun, inlet = _last_keys(ground, ground.publishers().keys, place), Inlet(ground.lookup)
    while True:
        for stored in ground.log.read(begun, place - begun):
            inlet.receive(stored, stored.time)
        earlier = _last_keys(ground, [name for name, _ in inlet.lost()], begun)
        if earlier == begun:
            inlet.offset = place - 1
            return inlet
        begun, inlet = earlier, Inlet(ground.lookup)


def _last_keys(ground: Ground, names: Iterable[str], place: int) -> int:
    """The offset from which each of the publishers begins a round before `place`; `place` where none does."""
    keys = [ground.log.last(key_subject(ground.topic, name), place - 1) for name in names]
    return min((key.offset for key in keys if key is not None), default=place)
