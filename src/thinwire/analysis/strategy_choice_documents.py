"""Strategies and outcomes as plain JSON values and back, for cells that run elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from thinwire.analysis.json_baseline import Baseline
from thinwire.analysis.property_cost_properties import PropertyCost
from thinwire.analysis.strategies import Bytes, Outcome
from thinwire.analysis.strategies_strategy import Level, Strategy
from thinwire.ledger import Row
from thinwire.ledger.row_document import from_document, to_document

_BYTES = ("start", "running", "end")


def strategy_out(strategy: Strategy) -> dict[str, Any]:
    """A strategy as a document.

    >>> strategy_in(strategy_out(Strategy(linger=0.1))) == Strategy(linger=0.1)
    True
    """
    return asdict(strategy)


def strategy_in(document: Mapping[str, Any]) -> Strategy:
    """The strategy of a document."""
    level = document["level"]
    asked = tuple((name, value) for name, value in level["asked"])
    return Strategy(**{**document, "level": Level(level["name"], level["share"], asked)})


def outcome_out(outcome: Outcome) -> dict[str, Any]:
    """An outcome as a document."""
    plain = {f.name: getattr(outcome, f.name) for f in fields(Outcome)}
    return {
        **plain,
        "strategy": strategy_out(outcome.strategy),
        **{name: asdict(plain[name]) for name in _BYTES},
        "errors": to_document(Row("analyze", outcome.topic, errors=dict(outcome.errors))),
    }


def outcome_in(document: Mapping[str, Any]) -> Outcome:
    """The outcome of a document."""
    parts = {name: Bytes(**document[name]) for name in _BYTES}
    strategy, errors = strategy_in(document["strategy"]), from_document(document["errors"]).errors
    return Outcome(**{**document, **parts, "strategy": strategy, "errors": errors})


def baseline_in(document: Mapping[str, Any]) -> Baseline:
    """The baseline of a document that `asdict` made."""
    return Baseline(**document)


def cost_in(document: Mapping[str, Any]) -> PropertyCost:
    """The cost of a document that `asdict` made."""
    return PropertyCost(**document)
