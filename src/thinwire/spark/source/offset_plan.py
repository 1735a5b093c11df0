"""How far a batch goes: not further than the logs, and not further than was asked for."""

from __future__ import annotations

from collections.abc import Mapping


def admitted(first: Mapping[str, int], end: Mapping[str, int], most: int | None) -> dict[str, int]:
    """The offset behind the last message of every topic; each gets its share of `most` by what it has.

    >>> admitted({"rooms": 1, "doors": 1}, {"rooms": 901, "doors": 101}, most=100)
    {'rooms': 91, 'doors': 11}
    >>> admitted({"rooms": 1}, {"rooms": 901}, most=None)
    {'rooms': 901}
    """
    there = {topic: max(0, behind - first[topic]) for topic, behind in end.items()}
    total = sum(there.values())
    if most is None or total <= most:
        return dict(end)
    shares = {topic: most * count // total for topic, count in there.items()}
    left = most - sum(shares.values())
    # what rounding left over goes to the topics with the most, so that every batch gets on
    for topic in sorted(there, key=lambda name: (-there[name], name))[:left]:
        shares[topic] += 1
    return {topic: first[topic] + min(shares[topic], there[topic]) if there[topic] else end[topic] for topic in end}
