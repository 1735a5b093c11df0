"""Which channels can be fed as one: those whose silence can be foretold."""

from __future__ import annotations

from importlib.util import find_spec

from thinwire.codec.predictors.predictor_steps import FINE, LAST
from thinwire.services.translator.channel import Channel
from thinwire.wire.partial_event import Lane


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
