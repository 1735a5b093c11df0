"""What there is to see of a demonstration at one moment; the drawing reads nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from thinwire.demo.view_model import Translating
from thinwire.demo.view_model_landings import Landing
from thinwire.demo.view_model_seats import Phase, Seat
from thinwire.ledger import Row


@dataclass(frozen=True)
class View:
    """A moment.

    seats: in the order in which they join; phases: in the order in which they came
    stored: what the broker keeps of the log, and of the channels
    landing: the table that Spark lands the stream in; None where it takes no part
    """

    elapsed: float
    seats: tuple[Seat, ...]
    translating: Translating
    phases: tuple[Phase, ...] = ()
    stored: tuple[Row, ...] = ()
    landing: Landing | None = None

    @property
    def events(self) -> int:
        """Events published."""
        return sum(phase.row.events for phase in self.phases)

    @property
    def kept(self) -> bool:
        """Was every promise kept, and is the table, where there is one, what it must be?"""
        return all(seat.kept for seat in self.seats) and (self.landing is None or self.landing.equal is not False)
