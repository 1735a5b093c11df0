"""What the subscriptions of a topic ask of its publishers, each demand once: very many may ask for the same.

>>> voices = Voices()
>>> for number in range(3):
...     voices.hear(None, SubscriptionDocument("rooms", f"s{number}", {"t": 0.5}))
>>> voices.hear(SubscriptionDocument("rooms", "s0", {"t": 0.5}), SubscriptionDocument("rooms", "s0", {"t": 1}))
>>> [(asked.identity, asked.tolerance) for asked in voices.asking()]
[('s1', {'t': 0.5}), ('s0', {'t': 1})]
"""

from __future__ import annotations

from thinwire.topics.topic_documents import SubscriptionDocument


class Voices:
    """The different demands of a topic's subscriptions."""

    def __init__(self) -> None:
        self._saying: dict[str, dict[str, SubscriptionDocument]] = {}

    def hear(self, before: SubscriptionDocument | None, after: SubscriptionDocument | None) -> None:
        """A subscription came, went, or asks for something else."""
        if before is not None:
            same = self._saying.get(_words(before), {})
            same.pop(before.identity, None)
            if not same:
                self._saying.pop(_words(before), None)
        if after is not None:
            self._saying.setdefault(_words(after), {})[after.identity] = after

    def asking(self) -> list[SubscriptionDocument]:
        """One subscription of each demand."""
        return [next(iter(same.values())) for same in self._saying.values()]


def _words(asked: SubscriptionDocument) -> str:
    """What matters to publishers."""
    return repr((asked.tolerance, asked.default_tolerance, asked.exact, asked.properties))
