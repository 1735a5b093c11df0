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
        "thinwire_lab.bench.stream_speed:SPEED_REQUIREMENTS",
        "thinwire_lab.bench.stream_speed:MEMORY_REQUIREMENTS",
        "thinwire_lab.bench.robustness_bench:WIRE",
    ),
    "live": (
        "thinwire_lab.bench.live_bench:LINK_BYTES_REQUIREMENTS",
        "thinwire_lab.bench.live_bench:KILL_REQUIREMENTS",
        "thinwire_lab.bench.live_bench:SATURATION_REQUIREMENTS",
    ),
    "classes": (
        "thinwire_lab.bench.channel_bench:CHANNEL_KILL_REQUIREMENTS",
        "thinwire_lab.bench.channel_bench:CHANNEL_RECOVERY_REQUIREMENTS",
        "thinwire_lab.bench.channel_bench:CHANNEL_GROUP_REQUIREMENTS",
        "thinwire_lab.bench.channel_bench:CHANNEL_SATURATION_REQUIREMENTS",
        "thinwire_lab.bench.robustness_bench:CLASSES",
    ),
    "dictionaries": (
        "thinwire_lab.bench.codec_sizes:BARS",
        "thinwire_lab.bench.codec_times:BARS",
        "thinwire_lab.bench.dictionary_bench:LIMITED_LINK_REQUIREMENTS",
        "thinwire_lab.bench.dictionary_bench:POLICY_REQUIREMENTS",
        "thinwire_lab.bench.dictionary_bench:LIVE_DICTIONARY_REQUIREMENTS",
        "thinwire_lab.bench.robustness_bench:DICTIONARIES",
    ),
    "conformance": (
        "thinwire_lab.bench.threshold_index_bench:BARS",
        "thinwire_lab.bench.conformance_bench:OVERLAY_REQUIREMENTS",
        "thinwire_lab.bench.conformance_bench:COMPOSITE_REQUIREMENTS",
        "thinwire_lab.bench.conformance_bench:LIVE_THRESHOLD_REQUIREMENTS",
    ),
    "placement": (
        "thinwire_lab.bench.placement_bench:MODEL_REQUIREMENTS",
        "thinwire_lab.bench.placement_bench:EDGE_REQUIREMENTS",
    ),
    "spark": (
        "thinwire_lab.bench.spark.source_bench:BARS",
        "thinwire_lab.bench.spark.reconstruction_bench:BARS",
        "thinwire_lab.bench.spark.analysis_bench:BARS",
    ),
    "workload": (
        "thinwire_lab.bench.spark.workload_bench:BARS",
        "thinwire_lab.bench.spark.grid_join_bench:BARS",
        "thinwire_lab.bench.embedding_bench:BARS",
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
