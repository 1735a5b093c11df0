"""One composite subscription, evaluated behind every event.

For each quantity there are two numbers: its latest value, and the one the subscriber holds. A predicate is true while
they are further apart than its radius; a quantity of which the subscriber holds nothing has moved as soon as it is
known. When the condition is true, exactly the quantities of the conjuncts that are true are delivered, all at once, and
held from then on. So behind every event the condition is false again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import index

from thinwire.filters.composite.condition import Condition
from thinwire.filters.composite.condition_predicates import Quantity, Radius
from thinwire.filters.composite.feed_sequencer_order import Delivery, Order


class Watch:
    """A condition and what is known of its quantities.

    held: what the subscriber holds already; latest: the values that are known already (what is held, where not given)
    number: of the last delivery

    >>> from thinwire.filters.composite import And, Predicate
    >>> a, b = Quantity("a", (), "x"), Quantity("b", (), "x")
    >>> watch = Watch(Condition.of(And((Predicate(a, Radius(1)), Predicate(b, Radius(1))))))
    >>> watch.offer(a, 10, Order(1))                          # nothing is known of b
    >>> {str(q): value for q, value in watch.offer(b, 20, Order(2)).values.items()}
    {'a[].x': 10, 'b[].x': 20}
    >>> watch.offer(a, 15, Order(3))                          # b has not moved
    >>> {str(q): value for q, value in watch.offer(b, 18, Order(4)).values.items()}
    {'a[].x': 15, 'b[].x': 18}
    """

    def __init__(
        self,
        condition: Condition,
        held: Mapping[Quantity, int] | None = None,
        latest: Mapping[Quantity, int] | None = None,
        number: int = 0,
    ) -> None:
        self.condition = condition
        self.number = number
        known = {**(held or {}), **(latest or {})}
        self._held = [(held or {}).get(quantity) for quantity in condition.quantities]
        self._latest = [known.get(quantity) for quantity in condition.quantities]
        self._slots: Sequence[int] = range(len(self._latest))

    def share(self, latest: list[int | None], slots: Sequence[int]) -> None:
        """From now on look at values that others look at too: those at these places, in the condition's order."""
        self._latest, self._slots = latest, slots

    @property
    def held(self) -> dict[Quantity, int]:
        """What the subscriber holds."""
        return self._known(self._held)

    @property
    def latest(self) -> dict[Quantity, int]:
        """The last value of each quantity."""
        return self._known([self._latest[slot] for slot in self._slots])

    def offer(self, quantity: Quantity, value: int, order: Order) -> Delivery | None:
        """An event of one quantity."""
        return self.offer_all({quantity: value}, order)

    def offer_all(self, values: Mapping[Quantity, int], order: Order, late: bool = False) -> Delivery | None:
        """An event of several quantities, or all events of one time: the condition is looked at once, behind them.

        Quantities that the condition does not speak of are passed over.
        """
        true = self._true(self.note(values))
        return self.tell(true, order, late) if true else None

    def note(self, values: Mapping[Quantity, int]) -> list[int]:
        """Take values without looking at the condition; the places of those it speaks of."""
        places = self.condition.places
        changed = {places[quantity]: index(value) for quantity, value in values.items() if quantity in places}
        for place, value in changed.items():
            self._latest[self._slots[place]] = value
        return list(changed)

    def is_outside(self, place: int, radius: Radius) -> bool:
        """Has a quantity moved further than the radius from what is held?"""
        latest, held = self._latest[self._slots[place]], self._held[place]
        if latest is None or held is None:
            return latest is not None
        return abs(latest - held) > radius.around(held)

    def interval(self, place: int, radius: Radius) -> tuple[int, int] | None:
        """The values of a quantity that are no news, both ends included; None where every value is."""
        held = self._held[place]
        return None if held is None else (held - radius.around(held), held + radius.around(held))

    def tell(self, true: Iterable[int], order: Order, late: bool = False) -> Delivery:
        """Deliver what these conjuncts speak of; it is held from now on."""
        conjuncts = tuple(sorted(true))
        places = sorted({place for at in conjuncts for place, _ in self.condition.conjuncts[at]})
        for place in places:
            self._held[place] = self._latest[self._slots[place]]
        self.number += 1
        told = {self.condition.quantities[place]: self._held[place] for place in places}
        values = {quantity: value for quantity, value in told.items() if value is not None}
        return Delivery(self.number, order, values, late, conjuncts)

    def _true(self, changed: Iterable[int]) -> list[int]:
        """The conjuncts that are true. Before the event none was, so it must speak of something that changed."""
        asked = sorted({at for place in changed for at in self.condition.touching[place]})
        conjuncts = self.condition.conjuncts
        return [at for at in asked if all(self.is_outside(place, radius) for place, radius in conjuncts[at])]

    def _known(self, values: Sequence[int | None]) -> dict[Quantity, int]:
        pairs = zip(self.condition.quantities, values, strict=True)
        return {quantity: value for quantity, value in pairs if value is not None}
