"""Benches: areas, each a list of bars.

An area is a list of places where bars are written, so a new area is one file and one line here. A place is a text that
is looked up when the area runs: `thinwire.testing` and `thinwire.spark` lie above this room, which must not know them.

>>> sorted(AREAS)
['classes', 'conformance', 'dictionaries', 'live', 'placement', 'spark', 'wire', 'workload']
"""

from __future__ import annotations

from importlib import import_module

from thinwire.errors import ConfigError
from thinwire.evaluation.bench.bar import Bar, Row, Setting, run, shown, unmeasured
from thinwire.evaluation.bench.machine import this_machine

__all__ = ["AREAS", "Bar", "Row", "Setting", "bars", "run", "shown", "this_machine", "unmeasured"]

AREAS: dict[str, tuple[str, ...]] = {
    "wire": (
        "thinwire.evaluation.bench.building:BARS",
        "thinwire.evaluation.bench.gate:BARS",
        "thinwire.evaluation.bench.speed:BARS",
        "thinwire.evaluation.bench.memory:BARS",
        "thinwire.testing.bars:WIRE",
    ),
    "live": (
        "thinwire.evaluation.bench.live_link:BARS",
        "thinwire.evaluation.bench.live_kill:BARS",
        "thinwire.evaluation.bench.live_knee:BARS",
    ),
    "classes": (
        "thinwire.evaluation.bench.classes_kill:BARS",
        "thinwire.evaluation.bench.classes_recovery:BARS",
        "thinwire.evaluation.bench.classes_many:BARS",
        "thinwire.evaluation.bench.classes_knee:BARS",
        "thinwire.testing.bars:CLASSES",
    ),
    "dictionaries": (
        "thinwire.evaluation.bench.dictionaries_codecs:BARS",
        "thinwire.evaluation.bench.dictionaries_time:BARS",
        "thinwire.evaluation.bench.dictionary_limits:BARS",
        "thinwire.evaluation.bench.dictionary_policies:BARS",
        "thinwire.evaluation.bench.dictionaries_live:BARS",
        "thinwire.testing.bars:DICTIONARIES",
    ),
    "conformance": (
        "thinwire.evaluation.conformance_index:BARS",
        "thinwire.evaluation.conformance_overlay:BARS",
        "thinwire.evaluation.conformance_composite:BARS",
        "thinwire.evaluation.bench.conformance_live:BARS",
    ),
    "placement": ("thinwire.evaluation.bench.placement:BARS", "thinwire.evaluation.bench.placement_live:BARS"),
    "spark": (
        "thinwire.spark.bench.source:BARS",
        "thinwire.spark.bench.partials:BARS",
        "thinwire.spark.bench.dry_run:BARS",
    ),
    "workload": (
        "thinwire.spark.bench.workload:BARS",
        "thinwire.spark.bench.workload_matching:BARS",
        "thinwire.evaluation.bench.workload_embedding:BARS",
        "thinwire.evaluation.bench.workload_matching:BARS",
    ),
}
"""area -> where its bars are, `module:list`, in the order in which they run"""


def bars(area: str) -> list[Bar]:
    """The bars of an area."""
    if area not in AREAS:
        raise ConfigError("no such area to bench", area=area, choose_from=sorted(AREAS))
    return [bar for place in AREAS[area] for bar in _found(place)]


def _found(place: str) -> list[Bar]:
    module, _, name = place.partition(":")
    found: list[Bar] = getattr(import_module(module), name)
    return found
