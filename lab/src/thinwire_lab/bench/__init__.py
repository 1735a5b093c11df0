"""Benchmarks by area.

A list of benchmarks is imported when its area runs, so that areas that need Spark or a broker can be listed without
them.

>>> sorted(AREAS)
['classes', 'conformance', 'dictionaries', 'live', 'placement', 'spark', 'wire', 'workload']
"""

from __future__ import annotations

from importlib import import_module

from thinwire.errors import ConfigError
from thinwire_lab.bench.benchmark import Benchmark

AREAS: dict[str, tuple[str, ...]] = {
    "wire": (
        "building_bench:BENCHMARKS",
        "recording_requirements:BENCHMARKS",
        "stream_speed:SPEED_BENCHMARKS",
        "stream_speed:MEMORY_BENCHMARKS",
        "robustness_bench:WIRE",
    ),
    "live": (
        "live_bench:LINK_BYTES_BENCHMARKS",
        "live_bench:KILL_BENCHMARKS",
        "live_bench:SATURATION_BENCHMARKS",
    ),
    "classes": (
        "channel_bench:KILL_BENCHMARKS",
        "channel_bench:RECOVERY_BENCHMARKS",
        "channel_bench:MANY_SOURCES_BENCHMARKS",
        "channel_bench:SATURATION_BENCHMARKS",
        "robustness_bench:CLASSES",
    ),
    "dictionaries": (
        "codec_sizes:BENCHMARKS",
        "codec_times:BENCHMARKS",
        "dictionary_bench:LIMITED_LINK_BENCHMARKS",
        "dictionary_bench:POLICY_BENCHMARKS",
        "dictionary_bench:LIVE_BENCHMARKS",
        "robustness_bench:DICTIONARIES",
    ),
    "conformance": (
        "threshold_index_bench:BENCHMARKS",
        "conformance_bench:OVERLAY_BENCHMARKS",
        "conformance_bench:COMPOSITE_BENCHMARKS",
        "conformance_bench:LIVE_BENCHMARKS",
    ),
    "placement": ("placement_bench:MODEL_BENCHMARKS", "placement_bench:EDGE_BENCHMARKS"),
    "spark": (
        "spark.source_bench:BENCHMARKS",
        "spark.reconstruction_bench:BENCHMARKS",
        "spark.analysis_bench:BENCHMARKS",
    ),
    "workload": (
        "spark.workload_bench:BENCHMARKS",
        "spark.grid_join_bench:BENCHMARKS",
        "embedding_bench:BENCHMARKS",
        "matching_bench:BENCHMARKS",
    ),
}
"""area -> its lists of benchmarks, `module:list` in this package, in the order in which they run"""


def find_benchmarks(area: str) -> list[Benchmark]:
    """Return the benchmarks of an area."""
    if area not in AREAS:
        raise ConfigError("unknown area of benchmarks", area=area, choose_from=sorted(AREAS))
    lists = (path.split(":") for path in AREAS[area])
    return [benchmark for module, name in lists for benchmark in getattr(import_module(f"{__name__}.{module}"), name)]
