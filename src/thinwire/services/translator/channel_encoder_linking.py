"""The link of a channel: made to stand where a decoder does, with the share of the class, on the sources it takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from thinwire.codec import LinkConfig, Publisher
from thinwire.codec.decoded_event_encoder import Frames, publish_told
from thinwire.codec.decoder_state_replica import Replica
from thinwire.codec.source_table_roster import Roster
from thinwire.schema import Event
from thinwire.services.translator.channel_encoder import Habits
from thinwire.services.translator.channel_encoder_leaping import leap
from thinwire.services.translator.channel_encoder_told import Told
from thinwire.topics.demand_class import DemandClass, Source


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
    matches: which events it takes of them, all where None
    """

    def __init__(self, asked: DemandClass, publisher: str, habits: Habits) -> None:
        self.choice: Choice | None = None
        self.matches = asked.predicate.holds if asked.predicate is not None else None
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
        if self.matches is not None:
            return link  # it tells of a source from the first event on that matches
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
            if self.admits(event):
                self.publish(link, event, now)

    @property
    def takes_all(self) -> bool:
        """Does the class choose neither sources nor events?"""
        return self.choice is None and self.matches is None

    def admits(self, event: Event) -> bool:
        """Is it one of the events that the class chose?"""
        chosen = self.choice is None or self.choice[event.source]
        return chosen and (self.matches is None or self.matches(event))

    def publish(self, link: Publisher, event: Event, now: float) -> list[bytes]:
        """The frames of an event; of one that matches, whatever came before it without matching."""
        frames = leap(link, event, now) if self.matches is not None else []
        return frames + link.publish(event, now) if frames else link.publish(event, now)

    def publish_all(self, link: Publisher, events: Sequence[Event], now: float) -> Iterator[Frames]:
        """The frames of events that the class chose, told at one time."""
        if self.matches is None:
            yield from publish_told(link, events, now)
            return
        for number, event in enumerate(events):
            frames = self.publish(link, event, now)
            if frames:
                yield Frames([number] * len(frames), frames, data=False)

    def _config(self, replica: Replica) -> LinkConfig:
        rules = replica.expander.rules
        demand = self._asked.share(self._asked.schema(rules.schema), rules)
        return LinkConfig(
            replica.config_version,
            demand,
            key_frame_interval=self._habits.key_frame_interval,
            max_sources=self._habits.max_sources,
        )
