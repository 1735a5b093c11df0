"""Benches: areas, each a list of bars.

An area is a list of places where bars are written, so a new area is one file and one line here. A place is a text that
is looked up when the area runs: `thinwire.testing` and `thinwire.spark` lie above this room, which must not know them.

>>> sorted(AREAS)
['classes', 'conformance', 'dictionaries', 'live', 'placement', 'spark', 'wire', 'workload']
"""

from __future__ import annotations

from importlib import import_module

from thinwire.errors import ConfigError
from thinwire_lab.bench.benchmark import Bar, Row, Setting, run, shown, unmeasured

__all__ = ["AREAS", "Bar", "Row", "Setting", "bars", "run", "shown", "unmeasured"]

AREAS: dict[str, tuple[str, ...]] = {
    "wire": (
        "thinwire_lab.bench.building_bench:BARS",
        "thinwire_lab.bench.recording_requirements:BARS",
        "thinwire_lab.bench.stream_speed_speed:BARS",
        "thinwire_lab.bench.stream_speed:BARS",
        "thinwire_lab.bench.robustness_bench:WIRE",
    ),
    "live": (
        "thinwire_lab.bench.live_bench_live_link:BARS",
        "thinwire_lab.bench.live_bench:BARS",
        "thinwire_lab.bench.live_bench_live_knee:BARS",
    ),
    "classes": (
        "thinwire_lab.bench.channel_bench:BARS",
        "thinwire_lab.bench.channel_bench_classes_recovery:BARS",
        "thinwire_lab.bench.channel_bench_classes_many:BARS",
        "thinwire_lab.bench.channel_bench_classes_knee:BARS",
        "thinwire_lab.bench.robustness_bench:CLASSES",
    ),
    "dictionaries": (
        "thinwire_lab.bench.codec_sizes_dictionaries_codecs:BARS",
        "thinwire_lab.bench.codec_times:BARS",
        "thinwire_lab.bench.dictionary_bench_dictionary_limits:BARS",
        "thinwire_lab.bench.dictionary_bench_dictionary_policies:BARS",
        "thinwire_lab.bench.dictionary_bench:BARS",
        "thinwire_lab.bench.robustness_bench:DICTIONARIES",
    ),
    "conformance": (
        "thinwire_lab.bench.threshold_index_bench:BARS",
        "thinwire_lab.bench.conformance_bench_conformance_overlay:BARS",
        "thinwire_lab.bench.conformance_bench_conformance_composite:BARS",
        "thinwire_lab.bench.conformance_bench:BARS",
    ),
    "placement": ("thinwire_lab.bench.placement_bench:BARS", "thinwire_lab.bench.placement_bench_placement_live:BARS"),
    "spark": (
        "thinwire_lab.bench.spark.source_bench_source:BARS",
        "thinwire_lab.bench.spark.reconstruction_bench:BARS",
        "thinwire_lab.bench.spark.analysis_bench:BARS",
    ),
    "workload": (
        "thinwire_lab.bench.spark.workload_bench:BARS",
        "thinwire_lab.bench.spark.grid_join_bench:BARS",
        "thinwire_lab.bench.embedding_bench_workload_embedding:BARS",
        "thinwire_lab.bench.matching_bench:BARS",
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
