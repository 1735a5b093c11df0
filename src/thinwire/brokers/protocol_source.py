"""What a reader of whole stretches of a log asks: no event loop, no pushing, one caller at a time.

A subscriber lives on what comes next; a table is made of what is there. A `LogSource` answers from a broker through a
blocking socket, or from a recording on disk, and both in the same words, so that whoever reads does not know which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from thinwire.brokers.protocol_broker import Span, Stored


class Block(NamedTuple):
    """Messages of a log side by side, as whoever reads very many of them wants them: one entry a message in each."""

    offsets: npt.NDArray[np.int64]
    times: npt.NDArray[np.float64]
    subjects: list[str]
    payloads: list[bytes]


class LogSource(Protocol):
    """Logs and documents to read; `close` gives back what it holds, and a `with` block does so by itself."""

    def logs(self) -> list[str]:
        """The names of all logs."""

    def span(self, log: str) -> Span:
        """What the log holds now; `UnknownLog` if there is none."""

    def last(self, log: str, pattern: str, *, up_to: int | None = None) -> Stored | None:
        """The newest message under subjects that match, at or before an offset where given."""

    def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        """The subjects that have messages in the log, with how many."""

    def offset_at(self, log: str, time: float) -> int:
        """The offset of the first message stored at this time or later; one past the last where there is none."""

    def read(self, log: str, first: int, last: int, *, subjects: Sequence[str] = ()) -> Iterator[list[Stored]]:
        """The messages from an offset to another, both included, in order, in blocks of bounded size.

        It ends at `last`, or at the log's end where that comes first. What is no longer in the log is not there: a
        jump of the offsets says so.
        """

    def read_blocks(self, log: str, first: int, last: int, *, subjects: Sequence[str] = ()) -> Iterator[Block]:
        """The same, in columns: the fast door, for nothing is made for a single message but its payload."""

    def document(self, bucket: str, key: str) -> bytes | None:
        """The document under a key of a bucket; None where there is none."""

    def documents(self, bucket: str, pattern: str = ">") -> dict[str, bytes]:
        """All documents whose key matches."""

    def close(self) -> None: ...
