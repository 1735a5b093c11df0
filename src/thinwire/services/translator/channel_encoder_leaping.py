"""A source goes on to an event that is told, past others that are nobody's business.

Where a class chooses events by their values, silence means that an event did not match. So whatever matches is told,
also where all of it was expected; and the numbers of those between are left out, just before.
"""

from __future__ import annotations

from thinwire.codec import Publisher
from thinwire.codec.source_table_columns import DUE, ORDINAL, TOLD
from thinwire.schema import Event
from thinwire.topics.demand_class import Source
from thinwire.wire.control_frames import MAX_SKIP

_MOST = MAX_SKIP - 1
"""events that one frame may leave out"""


def leap(link: Publisher, event: Event, now: float) -> list[bytes]:
    """Bring a source to just before an event, which must be told then; the frames that it takes, mostly none."""
    row = link.encoder.reducer.row_of(event.source)
    if row is None:
        return []
    columns = link.encoder.reducer.columns
    start, frames = row * columns.width, list[bytes]()
    while event.ordinal - 1 - columns.table[start + TOLD] > _MOST:
        _pass_to(link, row, columns.table[start + TOLD] + _MOST)
        frames += link.heartbeat(now)
    _pass_to(link, row, event.ordinal - 1)
    columns.table[start + DUE] = event.ordinal
    return frames


def stands_at(link: Publisher, source: Source, ordinal: int) -> bool:
    """Is this the last event of the source that was told?"""
    reducer = link.encoder.reducer
    row = reducer.row_of(source)
    return row is not None and reducer.columns.ordinal(row) == ordinal


def _pass_to(link: Publisher, row: int, ordinal: int) -> None:
    """All events of a source up to this one are passed over."""
    encoder = link.encoder
    columns = encoder.reducer.columns
    start = row * columns.width
    if encoder.fast is not None and columns.moving[row]:
        from thinwire.codec.kernels.slot_updates import pass_one  # loaded already: the encoder is compiled as well

        pass_one(encoder.fast.plan, columns.view(), columns.width, row, ordinal)
    elif columns.moving[row]:
        for _ in range(ordinal - columns.table[start + ORDINAL]):
            columns.advance(row)
    else:
        columns.table[start + ORDINAL] = max(ordinal, columns.table[start + ORDINAL])
