"""Kill -9 of each part of the system: every event once, within its bound, for survivors and for the restarted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.live.delivery_audit_numbered import wrong
from thinwire_lab.live.kill_test import LATEST, PUBLISHERS, SUBSCRIBERS, Victim, havoc

SEED = 1
VICTIMS: tuple[Victim, ...] = ("broker", "publisher", "subscriber", "registry")


def kills(victim: Victim, setting: Setting) -> Iterator[Row]:
    """One victim, killed again and again."""
    found = asyncio.run(havoc(victim, setting.size(20, 2), SEED, setting.progress))
    worst = max(found.verdicts, key=lambda verdict: verdict.faults)
    how = f"{found.kills} kills within {LATEST:g} s of each start, seed {SEED}; {PUBLISHERS} publishers,"
    how += f" {SUBSCRIBERS} durable subscribers, {found.events:,} events recorded"
    name = f"kill -9 of the {victim}: events missing, repeated, out of order or beyond their bound"
    yield Row(name, "failures", found.faults, high=0, how=how, note=wrong(worst))


BARS = [Bar(f"kill {victim}", partial(kills, victim)) for victim in VICTIMS]
