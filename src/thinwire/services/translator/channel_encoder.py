"""What channels have in common, and who may feed them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from thinwire.codec.reducer import MAX_SOURCES

if TYPE_CHECKING:
    from thinwire.services.translator.channel import Channel

HOLD_FROM = 16
"""channels of changes, of one publisher, that are fed as one; fewer look at every event, and need less memory"""


@dataclass
class Habits:
    """What all channels of a translation have in common.

    epoch: of the translator; key_frame_interval, max_sources: as in `LinkConfig`
    speaking: those that have something to say; waiting: how many bytes of memory that needs
    hold_from: so many channels of changes that tell of one publisher are fed as one, see `Holding`
    """

    epoch: int
    key_frame_interval: float = 3600.0
    max_sources: int = MAX_SOURCES
    speaking: list[Channel] = field(default_factory=list)
    waiting: int = 0
    hold_from: int = HOLD_FROM


class Keeper(Protocol):
    """Who feeds a channel among many, and shows it only events that it must look at."""

    def catch_up(self, channel: Channel) -> None:
        """Let it stand where it would, had it looked at every event."""

    def owes(self, channel: Channel) -> None:
        """It has to answer at the end of the next message."""
