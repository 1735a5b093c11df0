"""Benchmarks of dictionaries in the running system, on limited links, and of dictionary policies.

Live: kill -9 with packed frames, the saturation rate with and without dictionaries, new dictionaries under load, and
the number of messages that must be joined until deflate equals a dictionary. Compact frames of numbers are not packed,
so their saturation rate shows the cost of the trainer. All frames of JSON are packed.

Limited links: twelve runs through a limited link to a real broker, compared with the same runs in virtual time.

Policies: bytes saved as in `reproduce.dictionaries.byte_account`, with every packed dictionary sent to every publisher
and every subscriber, and one byte per message. Streams that are too short are repeated. Published policies run with
several settings, of which the best is chosen afterwards for each stream and topology. Our policy has no settings. It is
measured with unknown and with known length of the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from thinwire.analysis.analysis_run import Cell as AnalysisCell
from thinwire.brokers.embedded import EmbeddedServer
from thinwire.dictionaries import Codec
from thinwire_lab.bench.benchmark import Benchmark, Row, Setting
from thinwire_lab.bench.live_bench import CHANGES, TITLES, kill_benchmarks, rate_row, ratio_row, search_rates
from thinwire_lab.live.dictionary_switch import SwitchResult, run_switches
from thinwire_lab.live.kill_test import PUBLISHERS, SUBSCRIBERS
from thinwire_lab.live.linger_batches import MESSAGES, QUICK_BATCHES, QUICK_MESSAGES, RATE, find_break_even, run_methods
from thinwire_lab.live.saturation_rate import QUICK, SHAPES, SaturationPlan, find_saturation_rates
from thinwire_lab.reproduce.dictionaries.byte_account import BATCHES, TOPOLOGIES
from thinwire_lab.reproduce.dictionaries.link_parties import METHODS, Load, codecs, measure_load
from thinwire_lab.reproduce.dictionaries.link_simulation import NAMED, Cell, LinkOutcome, simulate, times_faster
from thinwire_lab.reproduce.dictionaries.policy_cells import available_streams, messages_of, run_cell
from thinwire_lab.reproduce.dictionaries.policy_run import PUBLISHED, permutations
from thinwire_lab.streams.named_streams import NamedStream

PAIRS = {"compact frames": ("dictionaries", CHANGES), "frames of JSON": ("json frames, dictionaries", "json frames")}
"""chains that are searched with dictionaries and without"""
MIN_RATIO = 1.0
"""of the saturation rate with dictionaries to that without"""
LOAD = 0.8
"""share of the saturation rate at which dictionaries are switched"""
INTERVAL = 10.0
"""seconds between switches"""
MAX_SLOWER = 2.0
"""p99 of the latency while switching to that without"""
KINDS = ("json frames, dictionaries", "dictionaries")
"""chains whose dictionaries are switched: one in which every frame is packed, and that of `thinwire bench live`"""
TAXIS = ("debs-json", "taxi-json")


def saturation_rate(with_dictionaries: str, without: str, setting: Setting) -> Iterator[Row]:
    """Search with and without dictionaries in the same run, in turn."""
    found = search_rates([without, with_dictionaries], setting)
    yield from map(rate_row, found.values())
    yield ratio_row(found[with_dictionaries], found[without], MIN_RATIO)


def switching(setting: Setting) -> Iterator[Row]:
    """Switch dictionaries at a share of the saturation rate, which is searched first."""
    plan = QUICK if setting.quick else SaturationPlan(long=20.0, runs=1, precision=1.15)
    seconds, interval = (6.0, 2.0) if setting.quick else (60.0, INTERVAL)
    for index, kind in enumerate(KINDS):
        found = asyncio.run(find_saturation_rates([kind], plan, lambda share: None))[kind]
        if not found.rate:
            yield Row(_switch_row_name(kind, LOST), "failures", invalid="no rate was held")
            continue
        result = asyncio.run(run_switches(SHAPES[kind], LOAD * found.rate, seconds, interval))
        yield from switch_rows(kind, result, interval)
        setting.progress((index + 1) / len(KINDS))


LOST = "events lost or out of order"


def switch_rows(kind: str, found: SwitchResult, interval: float) -> Iterator[Row]:
    """Return the rows of lost events and of the latency."""
    outcome, publishers = found.switching, SHAPES[kind].publishers
    how = f"{outcome.rate:,.0f} events/s, {100 * LOAD:g} % of the saturation rate, for {outcome.seconds:g} s; "
    how += f"{publishers} publishers, 20 subscriber connections; another dictionary every {interval:g} s: "
    how += f"{found.switches} switches, {found.bindings} bindings in the log"
    # the first dictionary is also bound; the last one may be uploaded after the last event
    complete = found.bindings >= publishers * found.switches
    invalid = "" if complete else "not every publisher used every dictionary"
    yield Row(_switch_row_name(kind, LOST), "failures", outcome.lost, high=0, how=how, invalid=invalid)
    how = f"{outcome.p99:.0f} ms against {found.steady.p99:.0f} ms with one dictionary, at the same rate"
    note = found.steady.failure and f"without switching: {found.steady.failure}"
    name = _switch_row_name(kind, "p99 to one dictionary")
    yield Row(name, "times", found.slower, high=MAX_SLOWER, how=how, note=note)


def _switch_row_name(kind: str, what: str) -> str:
    return f"dictionaries switched, {TITLES[kind]}: {what}"


def batches(setting: Setting) -> Iterator[Row]:
    """Compare messages that are joined and deflated with a dictionary without a linger. There is no required result."""
    data = None if setting.data is None else str(setting.data)
    stream = next(stream.name for stream in available_streams(data) if stream.name in TAXIS)
    messages = list(messages_of(stream, data, setting.size(MESSAGES, QUICK_MESSAGES)))
    runs = asyncio.run(run_methods(messages, QUICK_BATCHES if setting.quick else BATCHES, progress=setting.progress))
    equal, alone = find_break_even(runs), runs[0]
    how = f"{len(messages):,} messages, {RATE:g} a second, embedded broker, every message compared; {equal}; "
    how += f"with a dictionary {alone.each:.1f} bytes a message"
    yield Row(f"batches, {stream}: joined until deflate equals a dictionary", "messages", equal.joined, how=how)


LIVE_BENCHMARKS = [
    *kill_benchmarks(
        "dictionary ",
        {"dictionaries": "dictionary trainer, with dictionaries", "publisher": "publisher, with dictionaries"},
        f"{PUBLISHERS} publishers of frames of JSON, {SUBSCRIBERS} durable subscribers",
        dictionaries=True,
    ),
    *(
        Benchmark(
            f"dictionary saturation rate, {frames}",
            partial(saturation_rate, *pair),
            tags=(f"dictionary knee, {frames}",),
        )
        for frames, pair in PAIRS.items()
    ),
    Benchmark("dictionaries switched", switching),
    Benchmark("batches instead of dictionaries", batches),
]


STREAM = "taxi-json"
TRAINING, MEASURED = 1000, 200
"""messages, of which the later ones are measured"""
MAX_DIFFERENCE = 0.1
MAX_WAKE_UP = 0.002
"""mean seconds by which timers of this process may be late; a message waits for about six timers, and the shortest
round trip is 50 ms"""


@dataclass(frozen=True)
class LinkPair:
    """A run on a real link and the same run in virtual time.

    store: seconds of this process and the broker for a message, an input of the simulation; late: see `MAX_WAKE_UP`
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
        """Relative differences of the times from the virtual ones."""
        live, virtual = self.live.figures(), self.virtual.figures()
        return {name: abs(live[name] / virtual[name] - 1) for name in virtual if not name.endswith("p99")}


def limited_links(setting: Setting) -> Iterator[Row]:
    """Measure the twelve runs, and how much faster packed messages arrive."""
    pairs = asyncio.run(_run_pairs(setting))
    yield from map(_difference_row, pairs)
    by_method = {(pair.name, pair.method): pair for pair in pairs}
    for pair in pairs:
        if pair.method != "plain":
            yield _speed_row(pair, by_method[pair.name, "plain"])


async def _run_pairs(setting: Setting) -> list[LinkPair]:
    messages = list(NamedStream(STREAM).messages(TRAINING + MEASURED))
    packers, measured = codecs(messages[:TRAINING]), messages[TRAINING:]
    found = []
    async with EmbeddedServer() as server:
        for (name, cell), method in product(NAMED.items(), METHODS):
            shorter = replace(cell, messages=setting.size(cell.messages, cell.messages // 2))
            found.append(await _run_pair(name, method, shorter, packers[method], measured, server.port))
            setting.progress(len(found) / (len(NAMED) * len(METHODS)))
    return found


async def _run_pair(name: str, method: str, cell: Cell, codec: Codec, messages: list[bytes], port: int) -> LinkPair:
    from thinwire_lab.reproduce.dictionaries.link_live import measure_base_cost, run_undisturbed

    load = measure_load(codec, messages)
    store = await measure_base_cost(cell, codec, messages, port, MAX_WAKE_UP)
    live, late = await run_undisturbed(cell, codec, messages, port, MAX_WAKE_UP)
    # the measured seconds of this process include packing and unpacking
    virtual = simulate(cell, replace(load, pack=0.0, unpack=0.0), store=store)
    return LinkPair(name, method, cell, load, live, virtual, store, late)


def _difference_row(pair: LinkPair) -> Row:
    name = f"limited links, {pair.name}, {pair.method}: live against virtual time"
    how = f"{pair.cell.limits}; {pair.cell.messages} messages of {pair.load.mean:.0f} bytes"
    how += f"; subscriber done after {pair.live.receiving:.2f} s, virtual {pair.virtual.receiving:.2f}"
    how += f"; half delivered within {1000 * pair.live.delivered[0]:.0f} ms, {1000 * pair.virtual.delivered[0]:.0f}"
    how += f"; largest difference: {max(pair.apart, key=pair.apart.__getitem__).replace('_', ' ')}"
    value, invalid = max(pair.apart.values()), _describe_invalid(pair)
    return Row(name, "share", value, high=MAX_DIFFERENCE, how=how, invalid=invalid)


def _speed_row(pair: LinkPair, plain: LinkPair) -> Row:
    live, virtual = times_faster(plain.live, pair.live), times_faster(plain.virtual, pair.virtual)
    how = ", ".join(f"{name} {live[name]:.2f} live, {virtual[name]:.2f} virtual" for name in live)
    how += f"; {pair.load.mean:.0f} bytes a message instead of {plain.load.mean:.0f}"
    return Row(
        f"limited links, {pair.name}: a subscriber faster with {pair.method}", "times", live["receiving"], how=how
    )


def _describe_invalid(pair: LinkPair) -> str:
    if pair.late <= MAX_WAKE_UP:
        return ""
    return f"timers were {1000 * pair.late:.0f} ms late on average: the machine is too busy"


LIMITED_LINK_BENCHMARKS = [Benchmark("limited links", limited_links)]


FULL, QUICK_POLICIES = 1_000_000, 20_000
SHORT = 2_000
"""messages; too few to pay for a dictionary that is sent to ten thousand publishers"""
OUR_POLICY = ("ours", "ours, length known")
MAX_LOST, MAX_BEHIND, MAX_SAMPLER = 0.05, 0.003, 0.1
STREAMS = ("debs-csv", "debs-json", "coinbase-json", "wiki-json", "openstack-log", "taxi-json", "drift-json")
"""streams that are measured if available; of a folder with other streams, all are"""

Rows = list[Mapping[str, Any]]


def _streams(setting: Setting) -> list[str]:
    present = [stream for stream in available_streams(_data(setting)) if next(stream.messages(1), None)]
    known = [stream.name for stream in present if stream.name in STREAMS]
    own = [stream.name for stream in present if stream.path and stream.path.parent == setting.data]
    return (own or known)[: 2 if setting.quick else None]


def _data(setting: Setting) -> str | None:
    return str(setting.data) if setting.data else None


def _run_policies(setting: Setting) -> Iterator[tuple[str, int, Rows]]:
    """Run every stream with every policy. Yield name, messages and rows."""
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
    for stream, messages, rows in _run_policies(setting):
        yield from _loss_rows(stream, messages, rows)
        yield from _gap_rows(stream, messages, rows)
        yield _sampler_row(stream, messages, rows)


def _loss_rows(stream: str, messages: int, rows: Rows) -> Iterator[Row]:
    """Return the savings lost with ten thousand publishers against one."""
    for policy in OUR_POLICY:
        one, _, many = (_saved(rows, policy, topology.name) for topology in TOPOLOGIES)
        how = f"{messages:,} messages, {one:.2f} % at 1:1, {many:.2f} % at 10,000:1"
        yield Row(f"{stream}, {policy}: lost at 10,000:1", "share", (one - many) / 100, high=MAX_LOST, how=how)


def _gap_rows(stream: str, messages: int, rows: Rows) -> Iterator[Row]:
    """Return the largest gap of our policy to the best published one, over all topologies."""
    for policy in OUR_POLICY:
        gaps = {}
        for topology in TOPOLOGIES:
            best = max((r for r in rows if r["policy"] in PUBLISHED and r["topology"] == topology.name), key=_reduction)
            ours = _saved(rows, policy, topology.name)
            how = f"{ours:.2f} % against {best['reduction']:.2f} % of {best['policy']} {best['settings']}"
            gaps[topology.name] = (best["reduction"] - ours, f"at {topology.name} {how}")
        gap, _ = max(gaps.values())
        how = f"{messages:,} messages; " + "; ".join(text for _, text in gaps.values())
        yield Row(f"{stream}, {policy}: behind the best published", "share", gap / 100, high=MAX_BEHIND, how=how)


def _sampler_row(stream: str, messages: int, rows: Rows) -> Row:
    """Return the CPU time of the sampler to that of Adaptive with its best settings."""
    alone = [row for row in rows if row["topology"] == "1:1"]
    ours = next(row["cpu sampler"] for row in alone if row["policy"] == "ours")
    theirs = max((row for row in alone if row["policy"] == "adaptive"), key=_reduction)["cpu sampler"]
    how = f"{messages:,} messages, {ours:.3f} s against {theirs:.3f} s"
    return Row(
        f"{stream}: CPU of our sampler to Adaptive's", "times", ours / max(theirs, 1e-9), high=MAX_SAMPLER, how=how
    )


def _short(setting: Setting) -> Iterator[Row]:
    """Compare a stream that is too short to pay for a dictionary with deflate in the same frame."""
    streams = _streams(setting)
    for number, stream in enumerate(streams):
        for policy in OUR_POLICY:
            ours, plain = (_cost(stream, name, setting) for name in (policy, "deflate"))
            how = f"{SHORT:,} messages, 10,000:1, {ours:.1f} bytes a message against {plain:.1f}"
            yield Row(f"{stream}, {policy}: too short, to deflate", "times", ours / plain, high=1.0, how=how)
        setting.progress((number + 1) / len(streams))


def _cost(stream: str, policy: str, setting: Setting) -> float:
    """Return the total bytes per message, including dictionaries."""
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


POLICY_BENCHMARKS = [
    Benchmark("dictionary policies", _policies),
    Benchmark("dictionary policies, short streams", _short),
]
