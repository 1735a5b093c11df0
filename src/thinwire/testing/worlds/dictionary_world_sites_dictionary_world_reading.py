"""A reader of a world of dictionaries, and what it holds everybody to: each note once, in order, as it was said."""

from __future__ import annotations

from random import Random

from thinwire.brokers.protocol_broker import Stored
from thinwire.codec import Delivery, Missed, State, Subscriber
from thinwire.errors import CorruptDictionary, PeerFault, TransportError, UnknownDictionary
from thinwire.schema import Event, opaque
from thinwire.testing.worlds.dictionary_world_sites import TOPIC, Ground
from thinwire.testing.worlds.dictionary_world_sites_dictionary_world_publishing import PublishingSite
from thinwire.topics.dictionary_store_store import Known
from thinwire.topics.names import is_key, publisher_in


class ReadingSite:
    """One reader of the log, from some place on."""

    def __init__(
        self, name: str, place: int, ground: Ground, publishers: dict[str, PublishingSite], chance: Random
    ) -> None:
        self.name = name
        self.place = place
        self.delivered = self.missed = 0
        self.violations: list[str] = []
        self.asleep = False
        self._ground = ground
        self._publishers = publishers
        self._chance = chance
        self._known = Known(limit=chance.choice((500, 100_000)))
        self._links = {
            name: Subscriber([opaque(TOPIC)], publisher=name, dictionaries=self._known.find) for name in publishers
        }
        self._next: dict[str, int] = {}
        self._told: set[str] = set()

    def work(self, now: float) -> None:
        """Read on, as far as the store lets it."""
        if self.asleep:
            return
        for stored in list(self._ground.read(self.place)):
            if not self._receive(stored, now):
                return
            self.place = stored.offset + 1
        for name, link in self._links.items():
            if link.poll(now):
                self._ground.wanted.add(name)

    def finish(self) -> None:
        """At rest, everybody must have been heard to the end."""
        for name, site in self._publishers.items():
            ready = self._links[name].state is State.READY
            if ready and name in self._next and self._next[name] != len(site.truth):
                self._complain(f"heard {name} up to note {self._next[name]} of {len(site.truth)}")
            if not ready and site.truth:
                self._complain(f"does not know where {name} stands")

    def _receive(self, stored: Stored, now: float) -> bool:
        """One message; False where it has to wait for the store."""
        name = publisher_in(stored.subject)
        link = self._links[name]
        while True:
            try:
                self._take(name, link.receive(stored.payload, now=now))
                return True
            except UnknownDictionary as unknown:
                if not self._learn(bytes.fromhex(unknown.hash), link):
                    return False
            except PeerFault as fault:
                self._complain(f"refused a message of {name}: {fault}")
                return True

    def _learn(self, hash: bytes, link: Subscriber) -> bool:
        """Ask the store; False where it does not answer. What it has not, or something else for it, is given up."""
        try:
            found = self._ground.fetch(hash, self._known.find)
        except TransportError:
            return False
        except CorruptDictionary as lie:
            self._ground.tell(f"{self.name}: {lie}")
            found = None
        if found is None:
            link.give_up()
        else:
            self._known.keep(found)
        return True

    def _take(self, name: str, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            if isinstance(delivery, Missed):
                self._told.add(name)
                self.missed += 1
                if delivery.reason == "unknown dictionary" and self._ground.honest:
                    self._complain(f"could not have a dictionary of {name} that the log still needs")
            elif isinstance(delivery, Event):
                self._check(name, bytes(delivery["payload"]))

    def _check(self, name: str, payload: bytes) -> None:
        truth = self._publishers[name].truth
        told_number = payload.partition(b'"n": ')[2].partition(b",")[0]
        number = int(told_number) if told_number.isdigit() else -1
        if not 0 <= number < len(truth) or truth[number] != payload:
            self._complain(f"was given what {name} never said: {payload!r}")
            return
        expected = self._next.get(name)
        told = name in self._told
        if expected is not None and (number < expected or (number > expected and not told)):
            self._complain(f"was given note {number} of {name} instead of {expected}, {'' if told else 'un'}told")
        self._told.discard(name)
        self._next[name] = number + 1
        self.delivered += 1

    def _complain(self, what: str) -> None:
        self.violations.append(f"{self.name} {what}")


def places(ground: Ground) -> list[int]:
    """Where a reader may begin: at the oldest message, at key frames, or with what comes next."""
    keys = [stored.offset for stored in ground.read(ground.first) if is_key(stored.subject)]
    return [ground.first, *keys, ground.log.end + 1]
