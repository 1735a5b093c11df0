"""Dictionaries in the running system: what a kill does, what they cost the knee, whether switching disturbs anybody,
and how many messages must be joined until deflate does as well.

Compact frames of numbers are not packed (there is nothing in them that could be shared), so that the first knee shows
what looking after dictionaries costs; frames of JSON are, every one of them.

Limited links: twelve courses through a narrow line to a real broker, each beside the same one in virtual time.

Bars of looking after dictionaries: what many receivers cost, what our policy gives up to the best, sampler CPU.

Bytes saved are as in `reproduce.dictionaries.byte_account`: every packed dictionary to every publisher and
every subscriber, and one byte a message. Streams shorter than the bar asks for are begun anew. Published policies run
with several settings each, and the best one is chosen afterwards, for every stream and topology by itself: a judge that
knows the outcome. Ours has no settings; it is shown twice, once without knowing how long the stream will be, and once
told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from thinwire.analysis.analysis_run import Cell as AnalysisCell
from thinwire.brokers.embedded import EmbeddedServer
from thinwire.dictionaries import Codec
from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.bench.live_bench import CALLED, OURS, rate_row, ratio_row
from thinwire_lab.live.delivery_audit import wrong
from thinwire_lab.live.dictionary_switch import Switched, switched
from thinwire_lab.live.kill_test import LATEST_WITH_CLASSES, PUBLISHERS, SUBSCRIBERS, Victim, havoc
from thinwire_lab.live.linger_batches import FEW, MESSAGES, QUICK_BATCHES, RATE, balance, courses
from thinwire_lab.live.saturation_rate import QUICK, SHAPES, SaturationPlan, knees
from thinwire_lab.reproduce.dictionaries.byte_account import BATCHES, TOPOLOGIES
from thinwire_lab.reproduce.dictionaries.link_parties import METHODS, Load, codecs, measure_load
from thinwire_lab.reproduce.dictionaries.link_simulation import NAMED, Cell, LinkOutcome, simulate, times_faster
from thinwire_lab.reproduce.dictionaries.policy_cells import available, messages_of, run_cell
from thinwire_lab.reproduce.dictionaries.policy_run import PUBLISHED, permutations
from thinwire_lab.streams.named_streams import NamedStream

PAIRS = {"compact frames": ("dictionaries", OURS), "frames of JSON": ("spelled out, dictionaries", "spelled out")}
"""what is searched with dictionaries and without"""
NOT_BELOW = 1.0
LOAD = 0.8
"""share of the knee at which dictionaries are switched"""
EVERY = 10.0
"""seconds"""
SLOWER = 2.0
KINDS = ("spelled out, dictionaries", "dictionaries")
"""what is switched: where every frame is packed, and what `thinwire bench live` measures"""
SEED = 1
TAXIS = ("debs-json", "taxi-json")
CALLED_VICTIMS: dict[Victim, str] = {"dictionaries": "dictionary service", "publisher": "publisher"}
FAULTS = "events missing, repeated, out of order or beyond their bound"


def knee(with_them: str, without: str, setting: Setting) -> Iterator[Row]:
    """With and without in the same run, in turn."""
    plan = QUICK if setting.quick else SaturationPlan()
    found = asyncio.run(knees([without, with_them], plan, setting.progress))
    for kind in (without, with_them):
        yield rate_row(found[kind], plan, low=None, judged=not setting.quick)
    yield ratio_row(found[with_them], found[without], NOT_BELOW)


def switching(setting: Setting) -> Iterator[Row]:
    """At most of the knee, which is searched first."""
    plan = QUICK if setting.quick else SaturationPlan(long=20.0, runs=1, precision=1.15)
    seconds, every = (6.0, 2.0) if setting.quick else (60.0, EVERY)
    for place, kind in enumerate(KINDS):
        found = asyncio.run(knees([kind], plan, lambda share: None))[kind]
        if not found.knee:
            yield Row(_name(kind, "events lost or out of order"), "failures", note="nothing was held", sound=False)
            continue
        outcome = asyncio.run(switched(SHAPES[kind], LOAD * found.knee, seconds, every))
        yield from rows_of_switching(kind, outcome, every)
        setting.progress((place + 1) / len(KINDS))


def rows_of_switching(kind: str, found: Switched, every: float) -> Iterator[Row]:
    """Was anything lost, and how much later did events come?"""
    round_, publishers = found.switching, SHAPES[kind].publishers
    how = f"{round_.rate:,.0f} events/s, {100 * LOAD:g} % of the knee, for {round_.seconds:g} s; "
    how += f"{publishers} publishers, 20 subscriber connections; another dictionary every {every:g} s: "
    how += f"{found.switches} switches, {found.bound} bindings in the log"
    # the first one, before the round, counts too; the last may come after the publishers have said all
    heard = found.bound >= publishers * found.switches
    note = "" if heard else "not every publisher went over each time"
    name = _name(kind, "events lost or out of order")
    yield Row(name, "failures", round_.lost, high=0, how=how, note=note, sound=heard)
    how = f"{round_.p99:.0f} ms against {found.steady.p99:.0f} ms with one dictionary, at the same rate"
    note = found.steady.trouble and f"without switching: {found.steady.trouble}"
    yield Row(_name(kind, "p99 to one dictionary"), "times", found.slower, high=SLOWER, how=how, note=note)


def _name(kind: str, what: str) -> str:
    return f"dictionaries switched, {CALLED[kind]}: {what}"


def kills(victim: Victim, setting: Setting) -> Iterator[Row]:
    """One victim, killed again and again, while every frame is packed."""
    found = asyncio.run(havoc(victim, setting.size(20, 2), SEED, setting.progress, dictionaries=True))
    worst = max(found.verdicts, key=lambda verdict: verdict.faults)
    how = f"{found.kills} kills within {LATEST_WITH_CLASSES:g} s of each other, seed {SEED}; {PUBLISHERS} publishers of"
    how += f" frames of JSON, {SUBSCRIBERS} durable subscribers, {found.events:,} events recorded"
    note = wrong(worst) if found.dictionary else "no dictionary was in use in the end"
    name = f"kill -9 of the {CALLED_VICTIMS[victim]}, dictionaries at work: {FAULTS}"
    yield Row(name, "failures", found.faults, high=0, how=how, note=note, sound=bool(found.dictionary))


def batches(setting: Setting) -> Iterator[Row]:
    """Joined during a linger and deflated as one, against a dictionary and no linger; reported, no bar."""
    data = None if setting.data is None else str(setting.data)
    stream = next(one.name for one in available(data) if one.name in TAXIS)
    messages = list(messages_of(stream, data, setting.size(MESSAGES, FEW)))
    found = asyncio.run(courses(messages, QUICK_BATCHES if setting.quick else BATCHES, progress=setting.progress))
    equal, alone = balance(found), found[0]
    how = f"{len(messages):,} messages, {RATE:g} a second, embedded broker, every message compared; {equal}; "
    how += f"with a dictionary {alone.each:.1f} bytes a message"
    yield Row(f"batches, {stream}: joined until deflate equals a dictionary", "messages", equal.joined, how=how)


LIVE_DICTIONARY_REQUIREMENTS = [
    *(Bar(f"dictionary kill {victim}", partial(kills, victim)) for victim in CALLED_VICTIMS),
    *(Bar(f"dictionary knee, {frames}", partial(knee, *pair)) for frames, pair in PAIRS.items()),
    Bar("dictionaries switched", switching),
    Bar("batches instead of dictionaries", batches),
]


STREAM = "taxi-json"
TRAINING, MEASURED = 1000, 200
"""messages, the later ones measured"""
AGREEMENT = 0.1
BUSY = 0.002
"""seconds by which this process may be woken late, on average: a message needs it half a dozen times, and the shortest
round trip is 50 ms"""


@dataclass(frozen=True)
class Pair:
    """A cell as it was and as it should have been.

    store: the seconds of this process and the broker for a message, which the simulation was told; late: see `BUSY`
    """

    name: str
    method: str
    cell: Cell
    load: Load
    live: LinkOutcome
    virtual: LinkOutcome
    store: float
    late: float

    @property
    def apart(self) -> dict[str, float]:
        """How far the times are apart, as a share of the virtual ones."""
        live, virtual = self.live.figures(), self.virtual.figures()
        return {name: abs(live[name] / virtual[name] - 1) for name in virtual if not name.endswith("p99")}


def limited_links(setting: Setting) -> Iterator[Row]:
    """The twelve, and how many times faster messages that are packed arrive."""
    pairs = asyncio.run(_pairs(setting))
    yield from map(_agreement, pairs)
    by_place = {(pair.name, pair.method): pair for pair in pairs}
    for pair in pairs:
        if pair.method != "plain":
            yield _faster(pair, by_place[pair.name, "plain"])


async def _pairs(setting: Setting) -> list[Pair]:
    found = []
    async with EmbeddedServer() as server:
        async for pair in _measured(setting, server.port):
            found.append(pair)
            setting.progress(len(found) / (len(NAMED) * len(METHODS)))
    return found


async def _measured(setting: Setting, port: int) -> AsyncIterator[Pair]:
    messages = list(NamedStream(STREAM).messages(TRAINING + MEASURED))
    packers, measured = codecs(messages[:TRAINING]), messages[TRAINING:]
    for name, cell in NAMED.items():
        shorter = replace(cell, messages=setting.size(cell.messages, cell.messages // 2))
        for method in METHODS:
            yield await _pair(name, method, shorter, packers[method], measured, port)


async def _pair(name: str, method: str, cell: Cell, codec: Codec, messages: list[bytes], port: int) -> Pair:
    from thinwire_lab.reproduce.dictionaries.link_live import measure_base_cost, run_undisturbed

    load = measure_load(codec, messages)
    store = await measure_base_cost(cell, codec, messages, port, BUSY)
    live, late = await run_undisturbed(cell, codec, messages, port, BUSY)
    # packing and unpacking are part of what a message takes this process
    virtual = simulate(cell, replace(load, pack=0.0, unpack=0.0), store=store)
    return Pair(name, method, cell, load, live, virtual, store, late)


def _agreement(pair: Pair) -> Row:
    name = f"limited links, {pair.name}, {pair.method}: live against virtual time"
    how = f"{pair.cell.limits}; {pair.cell.messages} messages of {pair.load.mean:.0f} bytes"
    how += f"; subscriber done after {pair.live.receiving:.2f} s, virtual {pair.virtual.receiving:.2f}"
    how += f"; half delivered within {1000 * pair.live.delivered[0]:.0f} ms, {1000 * pair.virtual.delivered[0]:.0f}"
    how += f"; farthest apart: {max(pair.apart, key=pair.apart.__getitem__).replace('_', ' ')}"
    note = _trouble(pair)
    return Row(name, "share", max(pair.apart.values()), high=AGREEMENT, how=how, note=note, sound=not note)


def _faster(pair: Pair, plain: Pair) -> Row:
    live, virtual = times_faster(plain.live, pair.live), times_faster(plain.virtual, pair.virtual)
    how = ", ".join(f"{name} {live[name]:.2f} live, {virtual[name]:.2f} virtual" for name in live)
    how += f"; {pair.load.mean:.0f} bytes a message instead of {plain.load.mean:.0f}"
    return Row(
        f"limited links, {pair.name}: a subscriber faster with {pair.method}", "times", live["receiving"], how=how
    )


def _trouble(pair: Pair) -> str:
    if pair.late <= BUSY:
        return ""
    return f"this process was woken {1000 * pair.late:.0f} ms late on average: the machine is too busy"


LIMITED_LINK_REQUIREMENTS = [Bar("limited links", limited_links)]


FULL, QUICK_POLICIES = 1_000_000, 20_000
SHORT = 2_000
"""messages; too few for any dictionary to pay that ten thousand publishers have to be given"""
OUR_POLICY = ("ours", "ours, length known")
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


def _measured_dictionary_policies(setting: Setting) -> Iterator[tuple[str, int, Rows]]:
    """Every stream under every policy: name, messages, rows."""
    messages = setting.size(FULL, QUICK_POLICIES)
    streams = _streams(setting)
    jobs = [(policy, settings) for policy in (*PUBLISHED, *OUR_POLICY) for settings in permutations(policy, quick=True)]
    for number, stream in enumerate(streams):
        rows: Rows = []
        for done, (policy, settings) in enumerate(jobs):
            cell: AnalysisCell = {"stream": stream, "policy": policy, "data": _data(setting), "settings": settings}
            rows += run_cell(**cell, messages=messages, cycle=True)["rows"]
            setting.progress((number + (done + 1) / len(jobs)) / len(streams))
        yield stream, messages, rows


def _policies(setting: Setting) -> Iterable[Row]:
    for stream, messages, rows in _measured_dictionary_policies(setting):
        yield from _lost(stream, messages, rows)
        yield from _behind(stream, messages, rows)
        yield _sampler(stream, messages, rows)


def _lost(stream: str, messages: int, rows: Rows) -> Iterator[Row]:
    """What ten thousand publishers cost against one."""
    for policy in OUR_POLICY:
        one, _, many = (_saved(rows, policy, topology.name) for topology in TOPOLOGIES)
        how = f"{messages:,} messages, {one:.2f} % at 1:1, {many:.2f} % at 10,000:1"
        yield Row(f"{stream}, {policy}: lost at 10,000:1", "share", (one - many) / 100, high=LOST, how=how)


def _behind(stream: str, messages: int, rows: Rows) -> Iterator[Row]:
    """What our policy gives up to the best published one, on the topology where it gives up most."""
    for policy in OUR_POLICY:
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
        for policy in OUR_POLICY:
            ours, plain = (_cost(stream, name, setting) for name in (policy, "deflate"))
            how = f"{SHORT:,} messages, 10,000:1, {ours:.1f} bytes a message against {plain:.1f}"
            yield Row(f"{stream}, {policy}: too short, to deflate", "times", ours / plain, high=1.0, how=how)
        setting.progress((number + 1) / len(streams))


def _cost(stream: str, policy: str, setting: Setting) -> float:
    """Bytes a message in all, the share of dictionaries included."""
    cell: AnalysisCell = {
        "stream": stream,
        "policy": policy,
        "data": _data(setting),
        "messages": SHORT,
        "publishers": [10_000],
    }
    (row,) = run_cell(**cell)["rows"]
    return float(row["mean size"] * (1 - row["reduction"] / 100))


def _saved(rows: Rows, policy: str, topology: str) -> float:
    return next(float(r["reduction"]) for r in rows if r["policy"] == policy and r["topology"] == topology)


def _reduction(row: Mapping[str, Any]) -> float:
    return float(row["reduction"])


POLICY_REQUIREMENTS = [Bar("dictionary policies", _policies), Bar("dictionary policies, short streams", _short)]
