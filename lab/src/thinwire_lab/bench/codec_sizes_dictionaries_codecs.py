"""Bytes a message, stream by stream: ours beside the usual codecs, and beside stock dictionaries of the same size.

Every codec trains on the same earlier messages and packs the same later ones, one at a time; every message is unpacked
again and compared. The bar is the better of two stock ways to share a dictionary of 16 kB: zstd's own trainer with the
constant bytes of a frame not counted (levels 3 and 19, each trained at its level), and zlib with the same bytes preset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import process_time

import zstandard

from thinwire.dictionaries import Codec, Dictionary, choose, codec_of
from thinwire.dictionaries.codecs import Deflate, Preset, Zstd
from thinwire.dictionaries.dictionary_transfer import cost
from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.bench.codec_sizes import Gzip
from thinwire_lab.bench.codec_sizes_dictionaries_streams import SHORTEST, Cut, cuts, left_out
from thinwire_lab.bench.codec_sizes_dictionaries_vcdiff import vcdiff_bytes
from thinwire_lab.bench.codec_sizes_previous import Previous

SMALL = 4_096
ANY_COST = 10.0
"""budget that lets every candidate take part, as the stock ways have no budget either"""
STOCK_LEVELS = (3, 19)
OURS = "ours"
_LIMIT = 1 << 24

BASELINES: tuple[Callable[[int], Codec], ...] = (
    lambda largest: Deflate(),
    lambda largest: Gzip(),
    lambda largest: Zstd(b"", 19, largest),
    lambda largest: Previous(3, largest),
)
"""each made for the largest message to be expected"""


def sizes(setting: Setting) -> Iterator[Row]:
    """One row a stream, with all codecs beside ours."""
    every = cuts(setting)
    for place, cut in enumerate(every):
        yield _row(cut, STOCK_LEVELS[:1] if setting.quick else STOCK_LEVELS)
        setting.progress((place + 1) / len(every))
    for cut in left_out(setting):
        note = cut.trouble or f"not measured: {len(cut.training):,} messages, {SHORTEST:,} say something"
        yield Row(f"{cut.name}: bytes a message", "bytes", note=note, sound=not cut.trouble)


def _row(cut: Cut, levels: Sequence[int]) -> Row:
    baselines = dict(_weighed(make, cut) for make in BASELINES)
    stock = _stock(cut, levels)
    begin = process_time()
    chosen = choose(cut.training, sizes=(SMALL, cut.size), budget=ANY_COST)
    spent = 1e9 * (process_time() - begin) / sum(map(len, cut.training))
    codec = codec_of(chosen) if chosen is not None else Deflate()
    ours = weighed(codec, codec, cut.judging)
    how = f"{len(cut.training):,} messages train, the next {len(cut.judging):,} judge; {_described(chosen)}"
    how += f"; found in {spent:,.0f} ms of CPU for a megabyte of messages"
    beside = {OURS: ours, "raw": cut.raw, **baselines, **vcdiff_bytes(cut.judging), **stock}
    high = min(stock.values()) if stock else None
    return Row(f"{cut.name}: bytes a message", "bytes", ours, high=high, how=how, beside=beside)


def weighed(sender: Codec, receiver: Codec, messages: Sequence[bytes]) -> float:
    """Bytes a message, after every one of them came back as it was."""
    total = 0
    for message in messages:
        packed = sender.pack(message)
        if receiver.unpack(packed, _LIMIT) != message:
            raise AssertionError(f"{sender.name} does not give back what it was given")
        total += len(packed)
    return total / len(messages)


def _weighed(make: Callable[[int], Codec], cut: Cut) -> tuple[str, float]:
    sender, receiver = make(cut.largest), make(cut.largest)
    return sender.name, weighed(sender, receiver, cut.judging)


def _stock(cut: Cut, levels: Sequence[int]) -> dict[str, float]:
    """What a team gets that uses the libraries as they are, constant bytes not counted; nothing where they fail."""
    found: dict[str, float] = {}
    for level in levels:
        try:
            trained = zstandard.train_dictionary(cut.size, list(cut.training), level=level).as_bytes()
        except zstandard.ZstdError:
            return found
        codec = Zstd(trained, level, cut.largest)
        found[f"stock zstd {level}"] = weighed(codec, codec, cut.judging)
        if level == levels[0]:
            preset = Preset(trained, 9)
            found["stock zlib 9"] = weighed(preset, preset, cut.judging)
    return found


def _described(dictionary: Dictionary | None) -> str:
    if dictionary is None:
        return "no dictionary can be made, so deflate"
    size, sent = len(dictionary.content), cost(dictionary)
    return f"{dictionary.codec} {dictionary.level}, {size:,} bytes, {sent:,} to send"


BARS = [Bar("bytes a message", sizes)]
