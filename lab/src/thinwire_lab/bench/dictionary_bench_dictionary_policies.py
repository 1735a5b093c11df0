"""Bars of looking after dictionaries: what many receivers cost, what our policy gives up to the best, sampler CPU.

Bytes saved are as in `thinwire.dictionaries.byte_account`: every dictionary, as it travels, to every publisher and
every subscriber, and one byte a message. Streams shorter than the bar asks for are begun anew. Published policies run
with several settings each, and the best one is chosen afterwards, for every stream and topology by itself: a judge that
knows the outcome. Ours has no settings; it is shown twice, once without knowing how long the stream will be, and once
told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from thinwire.analysis.analysis_cells import Cell
from thinwire.dictionaries.byte_account import TOPOLOGIES
from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.reproduce.dictionaries.policy_cells_cells import run_cell
from thinwire_lab.reproduce.dictionaries.policy_cells_opening import available
from thinwire_lab.reproduce.dictionaries.policy_run_policies import PUBLISHED, permutations

FULL, QUICK = 1_000_000, 20_000
SHORT = 2_000
"""messages; too few for any dictionary to pay that ten thousand publishers have to be given"""
OURS = ("ours", "ours, length known")
LOST, BEHIND, SAMPLER = 0.05, 0.003, 0.1
STREAMS = ("debs-csv", "debs-json", "coinbase-json", "wiki-json", "openstack-log", "taxi-json", "drift-json")
"""of these, those that are there; in a folder of somebody's own all of them"""

Rows = list[Mapping[str, Any]]


def _streams(setting: Setting) -> list[str]:
    every = [stream for stream in available(_data(setting)) if next(stream.messages(1), None)]
    known = [stream.name for stream in every if stream.name in STREAMS]
    own = [stream.name for stream in every if stream.path and stream.path.parent == setting.data]
    return (own or known)[: 2 if setting.quick else None]


def _data(setting: Setting) -> str | None:
    return str(setting.data) if setting.data else None


def _measured(setting: Setting) -> Iterator[tuple[str, int, Rows]]:
    """Every stream under every policy: name, messages, rows."""
    messages = setting.size(FULL, QUICK)
    streams = _streams(setting)
    jobs = [(policy, settings) for policy in (*PUBLISHED, *OURS) for settings in permutations(policy, quick=True)]
    for number, stream in enumerate(streams):
        rows: Rows = []
        for done, (policy, settings) in enumerate(jobs):
            cell: Cell = {"stream": stream, "policy": policy, "data": _data(setting), "settings": settings}
            rows += run_cell(**cell, messages=messages, cycle=True)["rows"]
            setting.progress((number + (done + 1) / len(jobs)) / len(streams))
        yield stream, messages, rows


def _policies(setting: Setting) -> Iterable[Row]:
    for stream, messages, rows in _measured(setting):
        yield from _lost(stream, messages, rows)
        yield from _behind(stream, messages, rows)
        yield _sampler(stream, messages, rows)


def _lost(stream: str, messages: int, rows: Rows) -> Iterator[Row]:
    """What ten thousand publishers cost against one."""
    for policy in OURS:
        one, _, many = (_saved(rows, policy, topology.name) for topology in TOPOLOGIES)
        how = f"{messages:,} messages, {one:.2f} % at 1:1, {many:.2f} % at 10,000:1"
        yield Row(f"{stream}, {policy}: lost at 10,000:1", "share", (one - many) / 100, high=LOST, how=how)


def _behind(stream: str, messages: int, rows: Rows) -> Iterator[Row]:
    """What our policy gives up to the best published one, on the topology where it gives up most."""
    for policy in OURS:
        gaps = {}
        for topology in TOPOLOGIES:
            best = max((r for r in rows if r["policy"] in PUBLISHED and r["topology"] == topology.name), key=_reduction)
            ours = _saved(rows, policy, topology.name)
            how = f"{ours:.2f} % against {best['reduction']:.2f} % of {best['policy']} {best['settings']}"
            gaps[topology.name] = (best["reduction"] - ours, f"at {topology.name} {how}")
        gap, _ = max(gaps.values())
        how = f"{messages:,} messages; " + "; ".join(text for _, text in gaps.values())
        yield Row(f"{stream}, {policy}: behind the best published", "share", gap / 100, high=BEHIND, how=how)


def _sampler(stream: str, messages: int, rows: Rows) -> Row:
    """CPU of the sampler beside Adaptive's, with the settings that suit it best."""
    alone = [row for row in rows if row["topology"] == "1:1"]
    ours = next(row["cpu sampler"] for row in alone if row["policy"] == "ours")
    theirs = max((row for row in alone if row["policy"] == "adaptive"), key=_reduction)["cpu sampler"]
    how = f"{messages:,} messages, {ours:.3f} s against {theirs:.3f} s"
    return Row(f"{stream}: CPU of our sampler to Adaptive's", "times", ours / max(theirs, 1e-9), high=SAMPLER, how=how)


def _short(setting: Setting) -> Iterator[Row]:
    """A stream too short for any dictionary to pay costs what deflate costs, in the same frame."""
    streams = _streams(setting)
    for number, stream in enumerate(streams):
        for policy in OURS:
            ours, plain = (_cost(stream, name, setting) for name in (policy, "deflate"))
            how = f"{SHORT:,} messages, 10,000:1, {ours:.1f} bytes a message against {plain:.1f}"
            yield Row(f"{stream}, {policy}: too short, to deflate", "times", ours / plain, high=1.0, how=how)
        setting.progress((number + 1) / len(streams))


def _cost(stream: str, policy: str, setting: Setting) -> float:
    """Bytes a message in all, the share of dictionaries included."""
    cell: Cell = {"stream": stream, "policy": policy, "data": _data(setting), "messages": SHORT, "publishers": [10_000]}
    (row,) = run_cell(**cell)["rows"]
    return float(row["mean size"] * (1 - row["reduction"] / 100))


def _saved(rows: Rows, policy: str, topology: str) -> float:
    return next(float(r["reduction"]) for r in rows if r["policy"] == policy and r["topology"] == topology)


def _reduction(row: Mapping[str, Any]) -> float:
    return float(row["reduction"])


BARS = [Bar("dictionary policies", _policies), Bar("dictionary policies, short streams", _short)]
