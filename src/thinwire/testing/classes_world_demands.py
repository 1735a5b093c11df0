"""What is asked in a world of classes: seeded subscriptions, and the registry's budget of all of them."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

from thinwire.control.registry.budget import budget
from thinwire.control.registry.documents import SubscriptionDocument
from thinwire.control.registry.settings import Settings
from thinwire.events import Kind, Property, Schema
from thinwire.events.kinds import TOLERANT_KINDS
from thinwire.link import LinkConfig
from thinwire.reduction.demand import tolerance_of
from thinwire.testing.world_truth import decimal

_TOLERANCES: tuple[float | str, ...] = (0, 0.25, 0.5, 1, 2, "0.3", 5)
_PREDICTORS = ("auto", "last", "last", "linear", "trend", "cadence")


class Registry:
    """Everything asked of a topic, as one configuration of its publishers; its version counts up with every change."""

    def __init__(self, schema: Schema, settings: Settings) -> None:
        self.schema = schema
        self._settings = settings
        self._asked: dict[str, SubscriptionDocument] = {}
        self.config = LinkConfig(1, budget(schema, (), settings).demand(schema, settings), **settings.link)

    def ask(self, asked: SubscriptionDocument) -> None:
        """A subscription comes, or asks for something else from now on."""
        self._asked[asked.identity] = asked
        self._conclude()

    def leave(self, identity: str) -> None:
        """A subscription goes."""
        del self._asked[identity]
        self._conclude()

    def _conclude(self) -> None:
        settings = self._settings
        demand = budget(self.schema, self._asked.values(), settings).demand(self.schema, settings)
        if self._asked and demand != self.config.demand:  # nobody asks: publishers stay as they are for a while
            self.config = LinkConfig(self.config.version + 1, demand, **settings.link)


def draw_settings(chance: Random) -> Settings:
    """Any way of publishing that a topic with classes can have."""
    return Settings(
        retain=True,
        format=chance.choice(("compact", "compact", "json")),
        key_frame_interval=chance.choice((3.0, 10.0, 60.0)),
        max_silence=chance.choice((1.5, 4.0)),
        audit_every=chance.choice((0, 0, 5)),
        mode=chance.choice(("predict", "hold")),
        predictor=chance.choice(_PREDICTORS),
    )


def draw_subscription(schema: Schema, chance: Random, identity: str) -> SubscriptionDocument:
    """Any subscription that the schema can honour."""
    measured = [p for p in schema.wire if p is not schema.time]
    properties = None
    if chance.random() < 0.4:
        properties = tuple(p.name for p in chance.sample(measured, chance.randint(1, len(measured))))
    seen = [p for p in measured if properties is None or p.name in properties]
    tolerant = [p for p in seen if p.kind in TOLERANT_KINDS]
    named = {p.name: _tolerance(p, chance) for p in tolerant if chance.random() < 0.6}
    exact = tuple(p.name for p in seen if p.name not in named) if chance.random() < 0.1 else False
    sources: dict[str, Any] | None = None
    if chance.random() < 0.3:
        sources = {"sensor": chance.choice(("s0", ["s0", "s1"], ["s1", "s5"]))}
    return SubscriptionDocument(
        schema.name,
        identity,
        named,
        default_tolerance=chance.choice((0, 0.5, 2, 5)),
        exact=exact,
        properties=properties,
        sources=sources,
        emit=chance.choice(("all", "all", "changes")),
    )


def tightened(asked: SubscriptionDocument, schema: Schema, chance: Random, identity: str) -> SubscriptionDocument:
    """Somebody who asks for less error of one property, and so makes publishers tell more."""
    tolerant = [p for p in schema.wire if p.kind in TOLERANT_KINDS and p is not schema.time]
    named: dict[str, Any] = {p.name: 0 for p in tolerant if chance.random() < 0.5}
    return SubscriptionDocument(schema.name, identity, named, default_tolerance=asked.default_tolerance)


def allowed(schema: Schema, p: Property, asked: SubscriptionDocument) -> Fraction:
    """How far off a subscription lets a property be; an idle band is part of it where it did not name the property."""
    if not isinstance(asked.exact, bool) and p.name in asked.exact:
        return Fraction(0)
    amount = tolerance_of(schema, p, asked.demand)
    idle = p.idle_band is not None and p.name not in asked.tolerance
    return amount + decimal(p.idle_band) if idle and p.idle_band else amount


def _tolerance(p: Property, chance: Random) -> float | str:
    return chance.choice((0, 10, 500)) if p.kind is Kind.GEO else chance.choice(_TOLERANCES)
