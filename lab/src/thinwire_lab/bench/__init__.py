"""Benchmarks by area.

A new area is a module with a list of benchmarks and a line in `AREAS`. A list is named as `module:list` and imported
when its area runs, so that areas that need Spark or a broker can be listed without them.

>>> sorted(AREAS)
['classes', 'conformance', 'dictionaries', 'live', 'placement', 'spark', 'wire', 'workload']
"""

from __future__ import annotations

from importlib import import_module

from thinwire.errors import ConfigError
from thinwire_lab.bench.benchmark import Benchmark, Row, Setting, format_value, run_benchmark, unmeasured

__all__ = ["AREAS", "Benchmark", "Row", "Setting", "find_benchmarks", "format_value", "run_benchmark", "unmeasured"]

_LISTS: dict[str, tuple[str, ...]] = {
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
AREAS = {area: tuple(f"{__name__}.{path}" for path in paths) for area, paths in _LISTS.items()}
"""area -> its lists of benchmarks, `module:list`, in the order in which they run"""


def find_benchmarks(area: str) -> list[Benchmark]:
    """Return the benchmarks of an area."""
    if area not in AREAS:
        raise ConfigError("unknown area of benchmarks", area=area, choose_from=sorted(AREAS))
    return [benchmark for path in AREAS[area] for benchmark in _load_list(path)]


def _load_list(path: str) -> list[Benchmark]:
    module, _, name = path.partition(":")
    benchmarks: list[Benchmark] = getattr(import_module(module), name)
    return benchmarks
