"""What single dictionaries do: how alike messages are, what history and size give, what is used, how it decays.

Each function is a cell of a sweep: plain parameters in, plain figures out. Messages that judge are always later than
those that were learned from.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from time import process_time
from typing import Any

from thinwire.dictionaries import dictionary_transfer as travelling
from thinwire.dictionaries.byte_account import Topology
from thinwire.dictionaries.codecs import Deflate, codec_of
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.policies import Predict, Replace
from thinwire.dictionaries.policies.policy_estimating import packed, reduction
from thinwire.dictionaries.training import train
from thinwire_lab.reproduce.dictionaries.dictionary_measures import TESTS, nsim
from thinwire_lab.reproduce.dictionaries.dictionary_measures_usage import Usage
from thinwire_lab.reproduce.dictionaries.policy_cells_opening import messages_of

LOOKED_AT = 1000
"""messages that a dictionary is judged by where the thesis takes ten thousand"""
USED_BY = 300
"""messages whose references are counted, one by one"""


def similar_cell(
    stream: str, data: str | None = None, messages: int | None = 20_000, tests: int = TESTS
) -> dict[str, Any]:
    """NSim of a stream, from so many places of it."""
    every = list(messages_of(stream, data, messages))
    mean, deviation = nsim(every, tests)
    return {"stream": stream, "messages": len(every), "mean": mean, "deviation": deviation}


def history_cell(stream: str, history: int, data: str | None = None, multiplier: float = 21) -> dict[str, Any]:
    """A dictionary from so many messages: how long it takes to make, and what it saves on those that follow."""
    learned, later = _split(stream, data, history)
    start = process_time()
    made = train(learned, _size(learned, multiplier))
    seconds = process_time() - start
    kilobytes = sum(map(len, learned)) / 1000
    return {"stream": stream, "history": history, "kB": kilobytes, "cpu seconds": seconds, "saved": _saved(made, later)}


def size_cell(stream: str, multiplier: float, data: str | None = None, history: int = 2000) -> dict[str, Any]:
    """A dictionary of so many mean messages: what it saves, what it takes to travel, and CPU to pack and to read."""
    learned, later = _split(stream, data, history)
    made = train(learned, _size(learned, multiplier))
    about = {"stream": stream, "multiplier": multiplier, "history": len(learned)}
    if made is None:
        return {**about, "saved": None}
    codec = codec_of(made)
    codec.unpack(codec.pack(later[0]), len(later[0]))  # machines are made when they are first needed
    start = process_time()
    sent = [codec.pack(message) for message in later]
    between = process_time()
    for one, message in zip(sent, later, strict=True):
        codec.unpack(one, len(message))
    costs = {"pack us": 1e6 * (between - start), "read us": 1e6 * (process_time() - between)}
    sizes = {"bytes": len(made.content), "travels in": travelling.cost(made)}
    return {**about, "saved": _saved(made, later), **sizes, **{name: cost / len(later) for name, cost in costs.items()}}


def form_cell(stream: str, data: str | None = None, history: int = 2000, size: int = 16_384) -> dict[str, Any]:
    """Bytes a message: plain, deflated, and with a dictionary made from so many earlier ones; slots included."""
    learned, later = _split(stream, data, history)
    made = train(learned, min(size, sum(map(len, learned)) // 10))
    codecs = {"deflate": Deflate(), "dictionary": codec_of(made) if made is not None else Deflate()}
    plain = sum(map(len, later)) / len(later)
    return {"stream": stream, "plain": plain, **{n: packed(later, codec) / len(later) for n, codec in codecs.items()}}


def usage_cell(stream: str, multiplier: float, data: str | None = None, history: int = 2000) -> dict[str, Any]:
    """Which share of a dictionary is used, and which share of messages comes from it or from themselves."""
    learned, later = _split(stream, data, history)
    made = train(learned, _size(learned, multiplier), codec="zlib", level=6)  # no tables: all of it can be used
    about = {"stream": stream, "multiplier": multiplier}
    if made is None:
        return {**about, "used": None, "internal": None, "counts": []}
    usage = Usage(made.content)
    for message in later[:USED_BY]:
        usage.add(message)
    figures = {"used": 100 * usage.used, "internal": 100 * usage.internal, "referred": 100 * usage.referred}
    return {**about, **figures, "counts": usage.counts}


def decay_cell(
    stream: str, data: str | None = None, messages: int | None = None, every: int = 10_000, looks: int = 100
) -> dict[str, Any]:
    """Predict's first dictionary, never replaced: BR of 100 messages every 10,000, first, last, and swing."""
    source = messages_of(stream, data, messages)
    made = _first(source)
    if made is None:
        return {"stream": stream, "begin": None}
    codec, plain = codec_of(made), Deflate()
    shares, sizes = [], [0, 0, 0]
    while looked := list(islice(source, looks)):
        shares.append(reduction(looked, codec))
        sizes = [s + n for s, n in zip(sizes, (len(looked), sum(map(len, looked)), packed(looked, codec)), strict=True)]
        deflated = packed(looked, plain) / len(looked)
        skipped = sum(1 for _ in islice(source, every - looks))
        if skipped < every - looks:
            break
    if not shares:
        return {"stream": stream, "begin": None}
    means = {"mean": sizes[1] / sizes[0], "deflated": deflated, "packed": sizes[2] / sizes[0]}
    course = {"begin": shares[0], "end": shares[-1], "swing": max(shares) - min(shares), "looks": len(shares)}
    return {"stream": stream, **means, **course, "kilobytes": travelling.cost(made) / 1000, "shares": shares}


def _first(source: Any) -> Dictionary | None:
    policy = Predict(Topology(1))
    for message in islice(source, 2000):
        policy.offer(message)
        proposal = policy.propose()
        if isinstance(proposal, Replace):
            return proposal.dictionary
    return None


def _split(stream: str, data: str | None, history: int) -> tuple[list[bytes], list[bytes]]:
    """What is learned from, and what follows; of a short stream at most 70 % is learned from."""
    every = list(messages_of(stream, data, history + LOOKED_AT))
    cut = min(history, int(0.7 * len(every)))
    return every[:cut], every[cut : cut + LOOKED_AT]


def _size(messages: Sequence[bytes], multiplier: float) -> int:
    return max(256, round(multiplier * sum(map(len, messages)) / max(len(messages), 1)))


def _saved(made: Dictionary | None, later: Sequence[bytes]) -> float | None:
    return None if made is None else reduction(later, codec_of(made))
