"""The streams that codecs are measured on, each cut into what trains and the later messages that judge."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from thinwire.errors import ThinwireError
from thinwire_lab.bench.benchmark import Setting
from thinwire_lab.streams.named_streams_streams import Stream, generated, streams

SIZE = 16_384
TRAINING, JUDGING = 2_000, 1_000
QUICK_TRAINING, QUICK_JUDGING = 600, 100
_QUICK_STREAMS = 3
SHORTEST = 800
"""messages of a stream that says anything"""


@dataclass(frozen=True)
class Cut:
    """A stream in two parts, the earlier to train on and the later to judge by.

    trouble: why it could not be read
    """

    name: str
    real: bool
    training: tuple[bytes, ...] = ()
    judging: tuple[bytes, ...] = ()
    trouble: str = ""

    @property
    def telling(self) -> bool:
        """Has it enough messages to say anything?"""
        return bool(self.judging)

    @property
    def size(self) -> int:
        """Bytes of a dictionary for it: 16 kB, or a tenth of a shorter sample."""
        return min(SIZE, sum(map(len, self.training)) // 10)

    @property
    def largest(self) -> int:
        """Bytes of the largest message that trains."""
        return max(map(len, self.training))

    @property
    def raw(self) -> float:
        """Bytes a message."""
        return sum(map(len, self.judging)) / len(self.judging)


def cuts(setting: Setting) -> list[Cut]:
    """Every stream of the folder that was named, then the generated ones; those that say anything."""
    return [cut for cut in _all(setting) if cut.telling]


def left_out(setting: Setting) -> list[Cut]:
    """The others: too short, or not to be read."""
    return [cut for cut in _all(setting) if not cut.telling]


def _all(setting: Setting) -> list[Cut]:
    training = setting.size(TRAINING, QUICK_TRAINING)
    judging = setting.size(JUDGING, QUICK_JUDGING)
    return list(_cuts(setting.data, training, judging, _QUICK_STREAMS if setting.quick else None))


@cache
def _cuts(folder: Path | None, training: int, judging: int, most: int | None) -> tuple[Cut, ...]:
    real = streams(folder)[:most] if folder is not None else []
    every = [*real, *generated()[:most]]
    return tuple(_cut(stream, training, judging) for stream in every)


def _cut(stream: Stream, training: int, judging: int) -> Cut:
    """The first messages train and the next judge; of a short stream half and half, of one that says nothing none."""
    real = stream.path is not None
    try:
        messages = list(stream.messages(training + judging))
    except ThinwireError as problem:
        return Cut(stream.name, real, trouble=str(problem))
    at = training if len(messages) == training + judging else len(messages) // 2
    if len(messages) < min(SHORTEST, training + judging):
        at = len(messages)
    return Cut(stream.name, real, tuple(messages[:at]), tuple(messages[at : at + judging]))
