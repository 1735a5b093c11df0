"""Silence kept as what leads to it: a frame may tell of very many events, and a table has rows for some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from thinwire.codec.compiled_table_decoder import Silence, TableDecoder
from thinwire.codec.decoder_state_replica import Replica

if TYPE_CHECKING:
    from thinwire.codec.compiled_decoder import FastDecoder


class SilenceKeeper:
    """In a replica's fast decoder's place: events passed over are not made, but kept as `Silence`.

    Ordinary frames it leaves alone: whoever puts it there has taken all there are.
    """

    def __init__(self, fast: FastDecoder, decoder: TableDecoder) -> None:
        self._fast = fast
        self._decoder = decoder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fast, name)

    def take(self, message: bytes, at: int, out: list[Any], *, passed_over: bool) -> tuple[int, int, int]:
        """None, from byte `at` on."""
        return at, 0, 0

    def pass_over(self, row: int, skip: int) -> list[Silence]:
        """The source's next events, which were as expected."""
        if not skip:
            return []
        silence = self._decoder.keep_silence(row, skip)
        self._fast.move_on(row, skip)
        return [silence]


@contextmanager
def keeping(replica: Replica | None, decoder: TableDecoder | None) -> Iterator[None]:
    """While this lasts, the replica hands out silence as it is."""
    fast = replica.fast if replica is not None else None
    if replica is None or decoder is None or fast is None:
        yield
        return
    replica.fast = cast("FastDecoder", SilenceKeeper(fast, decoder))
    try:
        yield
    finally:
        replica.fast = fast
