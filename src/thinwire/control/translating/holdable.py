"""Which channels can be fed as one: those whose silence can be foretold."""

from __future__ import annotations

from importlib.util import find_spec

from thinwire.control.translating.channel import Channel
from thinwire.formats.lanes import Lane
from thinwire.reduction.predictors.steps import FINE, LAST


def may_hold(channel: Channel) -> bool:
    """Can it be said without asking the channel which events it passes over?

    It can where every measurement is held, or travels with every change, and nothing else moves in silence but time.
    """
    link = channel.link
    if link is None or channel.is_mute or channel.asked.predicate is not None or find_spec("numba") is None:
        return False
    rules = link.encoder.reducer.rules
    ticks = [rule for rule in rules.rules if rule.lane is Lane.TICK]
    held = [rule for rule in ticks if rules.fires(rule)]
    steady = not any(rule.property.period or rule.auto for rule in ticks)
    return rules.changes and steady and bool(held) and all(rule.mode & ~FINE == LAST for rule in held)
