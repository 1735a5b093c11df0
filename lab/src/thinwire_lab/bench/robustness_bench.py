"""Bars on robustness. The areas of `thinwire bench` find them here by name: benches lie below this room."""

from __future__ import annotations

import os
from collections.abc import Iterator

from thinwire.testing.worlds import channel_world as classes_world_runs
from thinwire.testing.worlds import dictionary_world as dictionary_world_runs
from thinwire.testing.worlds.stream_world import run_seeds
from thinwire_lab.bench.benchmark import Benchmark, Row, Setting
from thinwire_lab.robustness.fuzz import run_fuzz

SEED = 1


def fuzz(setting: Setting) -> Iterator[Row]:
    """Spoilt bytes: whatever comes in, only errors of a peer come out."""
    count = setting.size(1_000_000, 20_000)
    found = run_fuzz(count, SEED, lambda inputs: setting.progress(inputs / count))
    refused = sum(found.refused.values())
    how = f"{found.inputs:,} inputs from seed {SEED}, {refused:,} refused by name, peak {found.peak:,} B"
    note = found.failures[0] if found.failures else ""
    yield Row("fuzz: inputs with any other outcome", "failures", len(found.failures), high=0, how=how, note=note)


def worlds(setting: Setting) -> Iterator[Row]:
    """Seeded worlds with crashes, pauses, loss, duplication, reordering and corruption: none may break a promise."""
    seeds = setting.size(10_000, 200)
    found = run_seeds(SEED, seeds, lambda done: setting.progress(done / seeds), processes=os.cpu_count() or 1)
    how = f"{found.seeds:,} seeds, {found.events:,} events, {found.frames:,} frames, {found.restarts:,} restarts"
    how += f", {found.let_through} wrong frames met their one-byte check by chance"
    note = f"replay: python -m thinwire.testing.worlds.stream_world {min(found.failed)}" if found.failed else ""
    yield Row(
        "deterministic world: seeds with a broken promise", "failures", len(found.failed), high=0, how=how, note=note
    )


def worlds_of_classes(setting: Setting) -> Iterator[Row]:
    """Seeded worlds in which translators die, pause and wake: no reader of a class may be told wrong, or not at all."""
    seeds = setting.size(10_000, 200)
    processes = os.cpu_count() or 1
    found = classes_world_runs.run_seeds(SEED, seeds, lambda done: setting.progress(done / seeds), processes)
    how = f"{found.seeds:,} seeds, {found.events:,} events, {found.delivered:,} deliveries"
    how += f", {found.successions:,} successions, {found.refused:,} writes refused, {found.stale:,} ignored"
    note = f"replay: python -m thinwire.testing.worlds.channel_world {min(found.failed)}" if found.failed else ""
    yield Row("world: seeds with a broken promise", "failures", len(found.failed), high=0, how=how, note=note)


def worlds_of_dictionaries(setting: Setting) -> Iterator[Row]:
    """Seeded worlds in which samplers die, the store fails and lies, and slots are used again: nothing may be lost
    untold, come twice, or be read wrong."""
    seeds = setting.size(10_000, 200)
    processes = os.cpu_count() or 1
    found = dictionary_world_runs.run_seeds(SEED, seeds, lambda done: setting.progress(done / seeds), processes)
    how = f"{found.seeds:,} seeds, {found.notes:,} notes, {found.packed:,} packed with {found.spread:,} dictionaries"
    how += f", {found.delivered:,} deliveries, {found.refused:,} writes refused"
    note = f"replay: python -m thinwire.testing.worlds.dictionary_world {min(found.failed)}" if found.failed else ""
    yield Row("world: seeds with a broken promise", "failures", len(found.failed), high=0, how=how, note=note)


WIRE = [Benchmark("fuzz", fuzz), Benchmark("deterministic world", worlds)]
CLASSES = [Benchmark("world of classes", worlds_of_classes)]
DICTIONARIES = [Benchmark("world of dictionaries", worlds_of_dictionaries)]
