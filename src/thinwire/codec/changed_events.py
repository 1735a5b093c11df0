"""Events of which a decoder knows that each shows a change: nobody has to compare them one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from thinwire.schema import Event


class ChangedEvents(NamedTuple):
    """What a decoder keeps of such events, as it had them: nobody who gets the events can alter it.

    records: of all events, one behind the other
    last_of: makes, of the last record of each source, its event again. Texts in it are those of today
    """

    records: bytes
    last_of: Callable[[bytes], list[Event]]
