"""What was known before a successor took over: it says how far the silence went, and this says what it was about."""

from __future__ import annotations

from typing import Any, NamedTuple

from thinwire.codec.decoder_state_replica import Replica
from thinwire.schema import Event

Key = tuple[Any, ...]


class Place(NamedTuple):
    """Where a source's state is."""

    replica: Replica
    alias: int

    @property
    def ordinal(self) -> int:
        """The number of the source's last event there."""
        return self.replica.expander.columns.ordinal(self.alias)

    def pass_over(self, skip: int) -> list[Event]:
        """The events that followed it in silence, whatever the replica's own reader wanted to see."""
        self.replica.passed_over = True
        return self.replica.pass_over(self.alias, skip)


class Former:
    """The sources that a successor has not told yet, each with the last replica that knew it."""

    def __init__(self) -> None:
        self._places: dict[Key, Place] = {}

    def add(self, replica: Replica) -> None:
        """This one is succeeded. Sources it had not been told itself stay with the one before it."""
        for alias, key in enumerate(replica.expander.keys):
            if key is not None:
                self._places[key] = Place(replica, alias)

    def give_up(self, key: Key) -> Place | None:
        """Where the source's state was; the successor's counts from now on."""
        return self._places.pop(key, None)

    def clear(self) -> None:
        """Nothing more can be learned from the former ones."""
        self._places.clear()
