"""Bars on robustness: the wire area of `thinwire bench` finds them here by name, because benches lie below this room."""

from __future__ import annotations

from collections.abc import Iterator

from thinwire.evaluation.bench import Bar, Row, Setting
from thinwire.testing.fuzz import run_fuzz
from thinwire.testing.world import World

SEED = 1


def fuzz(setting: Setting) -> Iterator[Row]:
    """Spoilt bytes: whatever comes in, only errors of a peer come out."""
    count = setting.size(1_000_000, 20_000)
    found = run_fuzz(count, SEED, lambda inputs: setting.progress(inputs / count))
    how = f"{found.inputs:,} inputs from seed {SEED}, {sum(found.refused.values()):,} refused by name, peak {found.peak:,} B"
    note = found.failures[0] if found.failures else ""
    yield Row("fuzz: inputs with any other outcome", "failures", len(found.failures), high=0, how=how, note=note)


def worlds(setting: Setting) -> Iterator[Row]:
    """Seeded worlds with crashes, pauses, loss, duplication, reordering and corruption: none may break a promise."""
    seeds = setting.size(10_000, 200)
    events = frames = restarts = 0
    broken: list[int] = []
    for seed in range(seeds):
        report = World(seed).run()
        events, frames, restarts = events + report.events, frames + report.frames, restarts + report.restarts
        if report.violations:
            broken.append(seed)
        setting.progress((seed + 1) / seeds)
    how = f"{seeds:,} seeds, {events:,} events, {frames:,} frames, {restarts:,} restarts"
    note = f"replay: python -m thinwire.testing.world {broken[0]}" if broken else ""
    yield Row("deterministic world: seeds with a broken promise", "failures", len(broken), high=0, how=how, note=note)


WIRE = [Bar("fuzz", fuzz), Bar("deterministic world", worlds)]
