"""The link of a channel: made to stand where a decoder does, with the share of the class, on the sources it takes."""

from __future__ import annotations

import math
from collections.abc import Callable

from thinwire.control.classes import DemandClass, Source
from thinwire.control.translating.habits import Habits
from thinwire.control.translating.told import Told
from thinwire.events import Event
from thinwire.link import LinkConfig, Publisher
from thinwire.link.replica import Replica
from thinwire.reduction.roster import Roster


class Choice(dict[Source, bool]):
    """Which sources a class takes; each is asked about once."""

    def __init__(self, choose: Callable[[Source], bool]) -> None:
        self._choose = choose

    def __missing__(self, source: Source) -> bool:
        answer = self[source] = self._choose(source)
        return answer


class Linking:
    """How a class has its links made, and moved on in silence.

    choice: the sources that it takes, all where None; known once a link was made
    """

    def __init__(self, asked: DemandClass, publisher: str, habits: Habits) -> None:
        self.choice: Choice | None = None
        self._asked = asked
        self._publisher = publisher
        self._habits = habits

    def adopt(self, replica: Replica, roster: Roster | None, sequence: int) -> Publisher:
        """A link that stands where a decoder does."""
        rules = replica.expander.rules
        schema = self._asked.schema(rules.schema)
        choose = self._asked.chooser(schema)
        self.choice = Choice(choose) if choose is not None else None
        link = Publisher(
            schema,
            self._config(replica),
            name=self._publisher,
            incarnation=replica.incarnation,
            now=math.inf,
            over=rules,
            sequence=sequence,
            trusting=True,
        )
        if self.choice is None:
            link.adopt(replica.expander, roster=roster)
        else:  # whose rows are its own: it must not write into the roster of all sources
            link.adopt(replica.expander, self.choice.__getitem__)
        return link

    def follow(self, link: Publisher, replica: Replica, now: float) -> list[bytes]:
        """The publisher was told to do otherwise: what is left of the tolerance is another share of it now."""
        return link.reconfigure(self._config(replica), now, over=replica.expander.rules)

    def pass_mutely(self, link: Publisher, told: Told) -> None:
        """A message moves the state on, and nothing is said of it."""
        for step in told.steps:
            if isinstance(step, Replica):
                self.follow(link, step, told.time)
            elif isinstance(step, list):
                self.publish_mutely(link, step, told.time)

    def publish_mutely(self, link: Publisher, events: list[Event], now: float) -> None:
        """Events move the state on, and nothing is said of them."""
        for event in events:
            if self.choice is None or self.choice[event.source]:
                link.publish(event, now)

    def _config(self, replica: Replica) -> LinkConfig:
        rules = replica.expander.rules
        demand = self._asked.share(self._asked.schema(rules.schema), rules)
        return LinkConfig(
            replica.config_version,
            demand,
            key_frame_interval=self._habits.key_frame_interval,
            max_sources=self._habits.max_sources,
        )
