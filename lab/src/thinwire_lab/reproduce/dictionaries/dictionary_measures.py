"""Measures of single dictionaries: similarity of messages, effects of history and size, usage, decay.

The `*_cell` functions are cells of a sweep: JSON values as parameters and results. `data` is a folder of recorded
streams, or None. Messages for evaluation are always later than those for training.

Similarity (NSim), equation 5.4.3 of the thesis (C. Doblander, Compression in Publish/Subscribe Systems, 2018): the
share of two messages that common substrings longer than three bytes cover, for each of 100 messages against the 100
messages after it. With a high mean a dictionary saves much; a high deviation shows that the stream changes and the
dictionary must be replaced. A byte is in a common substring longer than three if one of the four-byte windows over it
occurs in the other message, so only windows are compared.

>>> [round(value, 1) for value in nsim([b'{"room": "11.1"}', b'{"room": "11.2"}'], tests=1, following=1)]
[81.2, 0.0]

Usage. Codecs do not report references, so messages are parsed as dictionary codecs do: at each byte the longest match
of four bytes or more in the dictionary or in the message before it. Section 5.2.3 of the thesis calls these dictionary
usage and internal usage.

>>> usage = Usage(b'{"room": "11.1", "never sent"')
>>> usage.add(b'{"room": "11.7", {"room": ')
>>> usage.counts[:12], round(usage.used, 2), round(usage.internal, 2), round(usage.referred, 2)
([2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1], 0.45, 0.0, 0.85)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinwire.dictionaries import dictionary_transfer as travelling
from thinwire.dictionaries.codecs import Deflate, codec_of
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.policies import Replace
from thinwire.dictionaries.policies.policy import packed
from thinwire.dictionaries.topology import Topology
from thinwire.dictionaries.training import train
from thinwire_lab.reproduce.dictionaries.policies import Predict
from thinwire_lab.reproduce.dictionaries.policies.training_sample import reduction
from thinwire_lab.reproduce.dictionaries.policy_cells import messages_of

WINDOW = 4
"""bytes of the shortest substring that counts"""
TESTS = FOLLOWING = 100
"""messages that are tested, and messages that each is compared with"""

Windows = NDArray[np.uint32]


def nsim(messages: Sequence[bytes], tests: int = TESTS, following: int = FOLLOWING) -> tuple[float, float]:
    """Return mean and standard deviation of NSim in per cent; tests are distributed evenly over the messages."""
    last = max(len(messages) - following - 1, 0)
    places = sorted({test * last // max(tests - 1, 1) for test in range(tests)})
    shares = [share for place in places for share in _compare_first(messages[place : place + following + 1])]
    return (100 * float(np.mean(shares)), 100 * float(np.std(shares))) if shares else (0.0, 0.0)


def _compare_first(messages: Sequence[bytes]) -> list[float]:
    """Compare the first message with each of the others."""
    first, *others = map(_windows, messages)
    return [
        (_bytes_in(first, other) + _bytes_in(other, first)) / max(len(messages[0]) + len(message), 1)
        for message, other in zip(messages[1:], others, strict=True)
    ]


def _windows(message: bytes) -> Windows:
    bytes_ = np.frombuffer(message, dtype=np.uint8).astype(np.uint32)
    count = max(len(message) - WINDOW + 1, 0)
    parts = (bytes_[at : at + count] << np.uint32(8 * at) for at in range(WINDOW))
    return np.bitwise_or.reduce(list(parts)) if count else np.zeros(0, np.uint32)


def _bytes_in(windows: Windows, others: Windows) -> int:
    """Count bytes that are in a window that the others contain too."""
    found = np.isin(windows, others)
    marked = np.zeros(len(windows) + WINDOW - 1, bool)
    for at in range(WINDOW):
        marked[at : at + len(windows)] |= found
    return int(marked.sum())


MAX_CANDIDATES = 16
"""positions of a window that are compared, from the end of the dictionary"""


class Usage:
    """The usage of one dictionary.

    content: bytes of the dictionary; those for zstd include entropy tables, which have no references
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.counts = [0] * len(content)
        self._places: dict[bytes, list[int]] = defaultdict(list)
        self._bytes = self._from_dictionary = self._from_message = 0
        for at in range(len(content) - WINDOW + 1):
            self._places[content[at : at + WINDOW]].append(at)

    @property
    def used(self) -> float:
        """The share of the dictionary with references."""
        return sum(1 for count in self.counts if count) / max(len(self.counts), 1)

    @property
    def referred(self) -> float:
        """The share of the messages that the dictionary covers."""
        return self._from_dictionary / max(self._bytes, 1)

    @property
    def internal(self) -> float:
        """The share of the messages that earlier parts of themselves cover."""
        return self._from_message / max(self._bytes, 1)

    def add(self, message: bytes) -> None:
        """Parse a message and count its references."""
        self._bytes += len(message)
        at = 0
        while at < len(message):
            place, length = self._longest(message, at)
            inside = _repeated(message, at, length + 1)
            if inside > length:
                self._from_message += inside
            elif length:
                self._from_dictionary += length
                for part in range(place, place + length):
                    self.counts[part] += 1
            at += max(inside, length, 1)

    def _longest(self, message: bytes, at: int) -> tuple[int, int]:
        """Return position and length of the longest match in the dictionary; (0, 0) if there is none."""
        best, length = 0, 0
        for place in self._places.get(message[at : at + WINDOW], ())[-MAX_CANDIDATES:]:
            found = _common(self.content, place, message, at)
            if found > length:
                best, length = place, found
        return best, length


def _repeated(message: bytes, at: int, least: int) -> int:
    """Return the length of a match earlier in the message; 0 if it is shorter than `least` or a window."""
    least = max(least, WINDOW)
    found = message.find(message[at : at + least], 0, at) if at + least <= len(message) else -1
    return _common(message, found, message, at) if found >= 0 else 0


def _common(one: bytes, place: int, other: bytes, at: int) -> int:
    """Return the number of equal bytes from these two positions."""
    most = min(len(one) - place, len(other) - at)
    length = 0
    while length < most and one[place + length] == other[at + length]:
        length += 1
    return length


EVALUATED = 1000
"""messages for evaluation; the thesis uses ten thousand"""
PARSED = 300
"""messages for evaluation whose references are counted"""


def similar_cell(
    stream: str, data: str | None = None, messages: int | None = 20_000, tests: int = TESTS
) -> dict[str, Any]:
    """Return NSim of a stream from `tests` positions."""
    sample = list(messages_of(stream, data, messages))
    mean, deviation = nsim(sample, tests)
    return {"stream": stream, "messages": len(sample), "mean": mean, "deviation": deviation}


def history_cell(stream: str, history: int, data: str | None = None, multiplier: float = 21) -> dict[str, Any]:
    """Train a dictionary from `history` messages. Return CPU time and the saved share of later messages."""
    training, later = _split(stream, data, history)
    start = process_time()
    dictionary = train(training, _size(training, multiplier))
    seconds = process_time() - start
    saved = None if dictionary is None else reduction(later, codec_of(dictionary))
    kilobytes = sum(map(len, training)) / 1000
    return {"stream": stream, "history": history, "kB": kilobytes, "cpu seconds": seconds, "saved": saved}


def size_cell(stream: str, multiplier: float, data: str | None = None, history: int = 2000) -> dict[str, Any]:
    """Train a dictionary of `multiplier` mean messages. Return saved share, transfer size, and CPU times."""
    training, later = _split(stream, data, history)
    dictionary = train(training, _size(training, multiplier))
    about = {"stream": stream, "multiplier": multiplier, "history": len(training)}
    if dictionary is None:
        return {**about, "saved": None}
    codec = codec_of(dictionary)
    codec.unpack(codec.pack(later[0]), len(later[0]))  # creates the compressor and the decompressor
    start = process_time()
    sent = [codec.pack(message) for message in later]
    between = process_time()
    for one, message in zip(sent, later, strict=True):
        codec.unpack(one, len(message))
    each = 1e6 / len(later)
    times = {"pack us": each * (between - start), "read us": each * (process_time() - between)}
    sizes = {"bytes": len(dictionary.content), "travels in": travelling.cost(dictionary)}
    return {**about, "saved": reduction(later, codec), **sizes, **times}


def form_cell(stream: str, data: str | None = None, history: int = 2000, size: int = 16_384) -> dict[str, Any]:
    """Return bytes per message: plain, deflated, and with a dictionary from earlier messages; slots included."""
    training, later = _split(stream, data, history)
    dictionary = train(training, min(size, sum(map(len, training)) // 10))
    codecs = {"deflate": Deflate(), "dictionary": codec_of(dictionary) if dictionary is not None else Deflate()}
    plain = sum(map(len, later)) / len(later)
    return {"stream": stream, "plain": plain, **{n: packed(later, codec) / len(later) for n, codec in codecs.items()}}


def usage_cell(stream: str, multiplier: float, data: str | None = None, history: int = 2000) -> dict[str, Any]:
    """Return the share of a dictionary in use, and the shares of messages covered by it and by themselves."""
    training, later = _split(stream, data, history)
    dictionary = train(training, _size(training, multiplier), codec="zlib", level=6)  # no tables: all of it can be used
    about = {"stream": stream, "multiplier": multiplier}
    if dictionary is None:
        return {**about, "used": None, "internal": None, "counts": []}
    usage = Usage(dictionary.content)
    for message in later[:PARSED]:
        usage.add(message)
    figures = {"used": 100 * usage.used, "internal": 100 * usage.internal, "referred": 100 * usage.referred}
    return {**about, **figures, "counts": usage.counts}


def decay_cell(
    stream: str, data: str | None = None, messages: int | None = None, every: int = 10_000, samples: int = 100
) -> dict[str, Any]:
    """Return first, last and range of the BR of Predict's first dictionary if it is never replaced.

    every, samples: BR is measured on `samples` messages of every `every`
    """
    source = messages_of(stream, data, messages)
    dictionary = _first_dictionary(source)
    if dictionary is None:
        return {"stream": stream, "begin": None}
    codec = codec_of(dictionary)
    shares, sizes = [], [0, 0, 0]
    while sample := list(islice(source, samples)):
        shares.append(reduction(sample, codec))
        sizes = [s + n for s, n in zip(sizes, (len(sample), sum(map(len, sample)), packed(sample, codec)), strict=True)]
        skipped = sum(1 for _ in islice(source, every - samples))
        if skipped < every - samples:
            break
    if not shares:
        return {"stream": stream, "begin": None}
    means = {"mean": sizes[1] / sizes[0], "packed": sizes[2] / sizes[0]}
    course = {"begin": shares[0], "end": shares[-1], "swing": max(shares) - min(shares), "samples": len(shares)}
    return {"stream": stream, **means, **course, "kilobytes": travelling.cost(dictionary) / 1000}


def _first_dictionary(source: Iterator[bytes]) -> Dictionary | None:
    policy = Predict(Topology(1))
    for message in islice(source, 2000):
        policy.offer(message)
        proposal = policy.propose()
        if isinstance(proposal, Replace):
            return proposal.dictionary
    return None


def _split(stream: str, data: str | None, history: int) -> tuple[list[bytes], list[bytes]]:
    """Split a stream for training and evaluation; at most 70 % of a short stream is used for training."""
    sample = list(messages_of(stream, data, history + EVALUATED))
    cut = min(history, int(0.7 * len(sample)))
    return sample[:cut], sample[cut : cut + EVALUATED]


def _size(messages: Sequence[bytes], multiplier: float) -> int:
    return max(256, round(multiplier * sum(map(len, messages)) / max(len(messages), 1)))
