"""Limits of the source trees: file size, unique class names, plain words in names and prose."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TREES = ("src/thinwire", "lab/src")
MAX_LINES = 400
LONG_FILES = {"src/thinwire/errors.py"}
"""files that may be longer than MAX_LINES"""

_NAME_PARTS = """
    afresh asked crowd debtor dues farewell habits hear heard janitor knowing knowledge mourned nobody owe owed owes
    patience restless said shelf somebody stands stood tell telling tells told untold voices vouched whim who whoever
    whom
"""
NAME_PARTS = frozenset(_NAME_PARTS.split())
"""words that no identifier contains; identifiers are split at underscores and capital letters"""

PROSE = re.compile(
    r"\b(tells?|told|untold|hears?|heard|owe[sd]?|whoever|nobody|somebody|anybody|everybody|looks? after|looked after"
    r"|worked off|passed over|go(es)? over|went over|where (it|everything) stands|stands at|as far as (it|they)"
    r"|in silence|mourn\w*|of so many|after so many)\b",
    re.IGNORECASE,
)
"""words that no docstring, comment or message contains"""

ALLOWED = {
    "tell": ("brokers/recording/", "brokers/nats/blocking/"),  # `tell` of a file object
}
"""words with a legitimate use -> parts of the paths where they may occur"""

_NOT_CLEAN = """
    lab/src/thinwire_lab/bench/benchmark.py
    lab/src/thinwire_lab/bench/channel_bench.py
    lab/src/thinwire_lab/bench/codec_sizes.py
    lab/src/thinwire_lab/bench/conformance_bench.py
    lab/src/thinwire_lab/bench/dictionary_bench.py
    lab/src/thinwire_lab/bench/embedding_bench.py
    lab/src/thinwire_lab/bench/placement_bench.py
    lab/src/thinwire_lab/bench/robustness_bench.py
    lab/src/thinwire_lab/bench/spark/bench_site.py
    lab/src/thinwire_lab/bench/spark/grid_join_bench.py
    lab/src/thinwire_lab/bench/spark/process_usage.py
    lab/src/thinwire_lab/bench/spark/reconstruction_bench.py
    lab/src/thinwire_lab/bench/spark/source_bench.py
    lab/src/thinwire_lab/bench/spark/workload_bench.py
    lab/src/thinwire_lab/bench/stream_speed.py
    lab/src/thinwire_lab/bench/threshold_index_bench.py
    lab/src/thinwire_lab/cli/reproduce.py
    lab/src/thinwire_lab/cli/reproduce_texts.py
    lab/src/thinwire_lab/cli/summary_files.py
    lab/src/thinwire_lab/cli/workload.py
    lab/src/thinwire_lab/cli/workload_reports.py
    lab/src/thinwire_lab/live/building_feed.py
    lab/src/thinwire_lab/live/delivery_audit.py
    lab/src/thinwire_lab/live/dictionary_switch.py
    lab/src/thinwire_lab/live/edge/edge_failover.py
    lab/src/thinwire_lab/live/edge/edge_load.py
    lab/src/thinwire_lab/live/edge/functions/taxi_regions.py
    lab/src/thinwire_lab/live/edge/functions/taxi_training.py
    lab/src/thinwire_lab/live/edge/load_harness.py
    lab/src/thinwire_lab/live/failover_roles.py
    lab/src/thinwire_lab/live/json_stack.py
    lab/src/thinwire_lab/live/kill_test.py
    lab/src/thinwire_lab/live/linger_batches.py
    lab/src/thinwire_lab/live/live_feed.py
    lab/src/thinwire_lab/live/load_chain.py
    lab/src/thinwire_lab/live/load_roles.py
    lab/src/thinwire_lab/live/many_sources.py
    lab/src/thinwire_lab/live/process_measurement.py
    lab/src/thinwire_lab/live/saturation_rate.py
    lab/src/thinwire_lab/live/service_roles.py
    lab/src/thinwire_lab/live/stacks.py
    lab/src/thinwire_lab/live/tolerance_groups.py
    lab/src/thinwire_lab/live/translator_failover.py
    lab/src/thinwire_lab/live/wire_bytes.py
    lab/src/thinwire_lab/overlay_sim/chord/key_handover.py
    lab/src/thinwire_lab/overlay_sim/discrete_events.py
    lab/src/thinwire_lab/overlay_sim/dissemination/cost_model.py
    lab/src/thinwire_lab/overlay_sim/dissemination/overlay_simulation.py
    lab/src/thinwire_lab/overlay_sim/dissemination/schemes.py
    lab/src/thinwire_lab/overlay_sim/dissemination/site_traffic.py
    lab/src/thinwire_lab/overlay_sim/filters/conjunction_costs.py
    lab/src/thinwire_lab/overlay_sim/filters/filter_kernels.py
    lab/src/thinwire_lab/overlay_sim/filters/published_filters.py
    lab/src/thinwire_lab/overlay_sim/filters/watch_table.py
    lab/src/thinwire_lab/overlay_sim/safe_region/__init__.py
    lab/src/thinwire_lab/overlay_sim/safe_region/safe_region_tree.py
    lab/src/thinwire_lab/placement/calibration.py
    lab/src/thinwire_lab/placement/measured_runs.py
    lab/src/thinwire_lab/reproduce/conformance/conformance_cells.py
    lab/src/thinwire_lab/reproduce/dictionaries/dictionary_figures.py
    lab/src/thinwire_lab/reproduce/dictionaries/dictionary_measures.py
    lab/src/thinwire_lab/reproduce/dictionaries/dictionary_tables.py
    lab/src/thinwire_lab/reproduce/dictionaries/link_figures.py
    lab/src/thinwire_lab/reproduce/dictionaries/link_live.py
    lab/src/thinwire_lab/reproduce/dictionaries/link_parties.py
    lab/src/thinwire_lab/reproduce/dictionaries/policy_cells.py
    lab/src/thinwire_lab/reproduce/dictionaries/policy_run.py
    lab/src/thinwire_lab/reproduce/dictionaries/thesis_items.py
    lab/src/thinwire_lab/reproduce/dictionaries/thesis_numbers.py
    lab/src/thinwire_lab/reproduce/dictionaries/thesis_sheet.py
    lab/src/thinwire_lab/reproduce/experiment.py
    lab/src/thinwire_lab/reproduce/placement/placement_cells.py
    lab/src/thinwire_lab/reproduce/placement/placement_figures.py
    lab/src/thinwire_lab/reproduce/virtual_events/live_figures.py
    lab/src/thinwire_lab/reproduce/workload/workload_figures.py
    lab/src/thinwire_lab/robustness/fuzz.py
    lab/src/thinwire_lab/streams/binary_formats.py
    lab/src/thinwire_lab/streams/checked_stream.py
    lab/src/thinwire_lab/streams/generated_streams.py
    lab/src/thinwire_lab/streams/named_streams.py
    lab/src/thinwire_lab/streams/threshold_streams.py
    lab/src/thinwire_lab/workload/assignment/broker_assignment.py
    lab/src/thinwire_lab/workload/builtin_summary.py
    lab/src/thinwire_lab/workload/interests/hierarchy.py
    lab/src/thinwire_lab/workload/interests/interests.py
    lab/src/thinwire_lab/workload/places/latency_embedding.py
    lab/src/thinwire_lab/workload/places/latency_matrix.py
    lab/src/thinwire_lab/workload/recipe.py
    lab/src/thinwire_lab/workload/samples/market.py
    lab/src/thinwire_lab/workload/samples/taxi.py
    lab/src/thinwire_lab/workload/scenarios/scenario.py
    lab/src/thinwire_lab/workload/scenarios/scenario_events.py
    lab/src/thinwire_lab/workload/scenarios/scenario_outcome.py
    lab/src/thinwire_lab/workload/scenarios/scenario_run.py
    lab/src/thinwire_lab/workload/spark/rectangle_match.py
    lab/src/thinwire_lab/workload/spark/workload_folder.py
    lab/src/thinwire_lab/workload/summary.py
    lab/src/thinwire_lab/workload/workload_pictures.py
    src/thinwire/analysis/analysis_run.py
    src/thinwire/analysis/column_errors.py
    src/thinwire/analysis/event_times.py
    src/thinwire/analysis/json_baseline.py
    src/thinwire/analysis/ledger_files.py
    src/thinwire/analysis/message_batches.py
    src/thinwire/analysis/packed_frames.py
    src/thinwire/analysis/property_cost.py
    src/thinwire/analysis/publisher_run.py
    src/thinwire/analysis/report.py
    src/thinwire/analysis/socket_bytes.py
    src/thinwire/analysis/strategies.py
    src/thinwire/analysis/strategy_choice.py
    src/thinwire/analysis/strategy_evaluation.py
    src/thinwire/analysis/work_folder.py
    src/thinwire/cli/demo.py
    src/thinwire/cli/demo_view.py
    src/thinwire/clock.py
    src/thinwire/demo/building/building_stream.py
    src/thinwire/demo/demo_publisher.py
    src/thinwire/demo/demo_run.py
    src/thinwire/demo/demo_scenario.py
    src/thinwire/demo/demo_subscriber.py
    src/thinwire/demo/demo_system.py
    src/thinwire/demo/demo_translator.py
    src/thinwire/demo/process_group.py
    src/thinwire/demo/spark_table.py
    src/thinwire/demo/view_model.py
    src/thinwire/dictionaries/policies/candidate_trial.py
    src/thinwire/dictionaries/policies/cost_based.py
    src/thinwire/dictionaries/policies/lifetime_estimate.py
    src/thinwire/dictionaries/policies/policy.py
    src/thinwire/dictionaries/policies/predict.py
    src/thinwire/dictionaries/training.py
    src/thinwire/lazy.py
    src/thinwire/ledger/row.py
    src/thinwire/ledger/row_document.py
    src/thinwire/placement/column_generation.py
    src/thinwire/placement/pattern_pricing.py
    src/thinwire/placement/queueing_features.py
    src/thinwire/schema/evolution.py
    src/thinwire/schema/inference.py
    src/thinwire/schema/kind_detection.py
    src/thinwire/schema/property.py
    src/thinwire/schema/schema.py
    src/thinwire/schema/timestamps.py
    src/thinwire/testing/worlds/channel_world.py
    src/thinwire/testing/worlds/channel_world_incidents.py
    src/thinwire/testing/worlds/channel_world_logs.py
    src/thinwire/testing/worlds/channel_world_observer.py
    src/thinwire/testing/worlds/channel_world_publisher.py
    src/thinwire/testing/worlds/channel_world_reader.py
    src/thinwire/testing/worlds/channel_world_translator.py
    src/thinwire/testing/worlds/dictionary_world.py
    src/thinwire/testing/worlds/dictionary_world_sampler.py
    src/thinwire/testing/worlds/dictionary_world_sites.py
    src/thinwire/testing/worlds/lossy_transport.py
    src/thinwire/testing/worlds/stream_world.py
    src/thinwire/testing/worlds/transport_faults.py
    src/thinwire/testing/worlds/world_incidents.py
    src/thinwire/testing/worlds/world_observer.py
    src/thinwire/testing/worlds/world_sites.py
    src/thinwire/topics/log_decoder.py
"""
NOT_CLEAN = frozenset(_NOT_CLEAN.split())
"""files that still contain words of the lists above; entries are only removed"""


def sources(tree: str) -> list[Path]:
    return sorted((ROOT / tree).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


ALL = [path for tree in TREES for path in sources(tree)]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Comments, and string literals with a space: docstrings, messages, help texts."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            lines = (line for line in node.value.splitlines() if not line.lstrip().startswith((">>>", "...")))
            yield node.lineno, "\n".join(lines)


def is_allowed(word: str, path: Path) -> bool:
    return any(part in relative(path) for part in ALLOWED.get(word.lower(), ()))


def findings(path: Path) -> list[str]:
    found = []
    for line, name in identifiers(parsed(path)):
        parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
        found += [f"{line}: name {name}" for word in parts if word in NAME_PARTS and not is_allowed(word, path)]
    for line, text in prose(path):
        found += [f"{line}: {hit[0]!r}" for hit in PROSE.finditer(text) if not is_allowed(hit[0], path)]
    return sorted(set(found))


def test_files_are_short():
    lines = {relative(path): path.read_text().count("\n") for path in ALL}
    assert {path: n for path, n in lines.items() if n > MAX_LINES and path not in LONG_FILES | NOT_CLEAN} == {}


@pytest.mark.parametrize("tree", TREES)
def test_public_class_names_are_unique(tree):
    defined = defaultdict(list)
    for path in sources(tree):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(f"{relative(path)}:{node.lineno}")
    assert {name: places for name, places in defined.items() if len(places) > 1} == {}


@pytest.mark.parametrize("path", [path for path in ALL if relative(path) not in NOT_CLEAN], ids=relative)
def test_names_and_prose_use_plain_words(path):
    assert findings(path) == []
