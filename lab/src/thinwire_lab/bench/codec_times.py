"""Time: to pack, to unpack and to train, each as processor time beside deflate's in the same run.

The choice within the budget of a quarter of deflate is timed, on the streams together: on messages of a hundred bytes
calling any library costs more than its work, so the shortest streams are named beside.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import process_time

from thinwire.analysis.json_baseline import RAW_DEFLATE, deflate
from thinwire.dictionaries import choose, codec_of, train
from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.bench.codec_sizes import SMALL, Cut, cuts

ROUNDS = 5
PACK, UNPACK, TRAIN = 0.25, 0.5, 100.0
_LIMIT = 1 << 24
_NAMED = 3


@dataclass(frozen=True)
class CodecTimes:
    """Seconds for one stream, ours and the reference's."""

    name: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def times(setting: Setting) -> Iterator[Row]:
    """Two rows: there and back."""
    every = cuts(setting)
    found = []
    for place, cut in enumerate(every):
        found.append(_paces(cut))
        setting.progress((place + 1) / len(every))
    packing, unpacking = zip(*filter(None, found), strict=True)
    yield _row("pack: time to deflate 6", packing, PACK)
    yield _row("unpack: time to inflate", unpacking, UNPACK)


def training_time(setting: Setting) -> Iterator[Row]:
    """What one dictionary of 16 kB costs, the trial on held-out messages included."""
    every = cuts(setting)
    spent = size = 0.0
    for cut in every:
        begin = process_time()
        train(cut.training, cut.size)
        spent += process_time() - begin
        size += sum(map(len, cut.training))
    how = f"{len(every)} streams, {size / 1e6:.1f} MB; trial of segment lengths and judging included"
    yield Row("train 16 kB: time for a megabyte of messages", "ms/MB", 1e9 * spent / size, high=TRAIN, how=how)


def _paces(cut: Cut) -> tuple[CodecTimes, CodecTimes] | None:
    chosen = choose(cut.training, sizes=(SMALL, cut.size), budget=PACK)
    if chosen is None:
        return None
    codec = codec_of(chosen)
    packed, deflated = [codec.pack(m) for m in cut.judging], [deflate(m) for m in cut.judging]
    pack = race(cut.judging, codec.pack, cut.judging, deflate)
    unpack = race(packed, lambda one: codec.unpack(one, _LIMIT), deflated, _inflate)
    return CodecTimes(cut.name, *pack), CodecTimes(cut.name, *unpack)


def race(
    ours: Sequence[bytes], our: Callable[[bytes], bytes], theirs: Sequence[bytes], their: Callable[[bytes], bytes]
) -> tuple[float, float]:
    """Seconds of both, the best of several rounds in turn: what disturbs only ever adds."""
    rounds = [(_seconds(our, ours), _seconds(their, theirs)) for _ in range(ROUNDS)]
    return min(one for one, _ in rounds), min(other for _, other in rounds)


def _seconds(do: Callable[[bytes], bytes], messages: Sequence[bytes]) -> float:
    begin = process_time()
    for message in messages:
        do(message)
    return process_time() - begin


def _inflate(packed: bytes) -> bytes:
    return zlib.decompress(packed, wbits=RAW_DEFLATE)


def _row(name: str, paces: Sequence[CodecTimes], bar: float) -> Row:
    value = sum(one.ours for one in paces) / sum(one.theirs for one in paces)
    worst = sorted(paces, key=lambda one: -one.ratio)[:_NAMED]
    how = f"{len(paces)} streams together, {ROUNDS} rounds, the best of each; slowest: "
    return Row(name, "times", value, high=bar, how=how + ", ".join(f"{one.name} {one.ratio:.2f}" for one in worst))


BARS = [Bar("pack and unpack", times), Bar("training", training_time)]
