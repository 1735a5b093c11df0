"""Limited links: twelve courses through a narrow line to a real broker, each beside the same one in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.dictionaries import Codec
from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.reproduce.dictionaries.link_parties import METHODS, Load, codecs, weighed
from thinwire_lab.reproduce.dictionaries.link_simulation import NAMED, Cell, Outcome
from thinwire_lab.reproduce.dictionaries.link_simulation_grid import times_faster
from thinwire_lab.reproduce.dictionaries.link_simulation_virtual import simulate
from thinwire_lab.streams.named_streams_streams import Stream

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
    live: Outcome
    virtual: Outcome
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
    messages = list(Stream(STREAM).messages(TRAINING + MEASURED))
    packers, measured = codecs(messages[:TRAINING]), messages[TRAINING:]
    for name, cell in NAMED.items():
        shorter = replace(cell, messages=setting.size(cell.messages, cell.messages // 2))
        for method in METHODS:
            yield await _pair(name, method, shorter, packers[method], measured, port)


async def _pair(name: str, method: str, cell: Cell, codec: Codec, messages: list[bytes], port: int) -> Pair:
    from thinwire_lab.reproduce.dictionaries.link_live import calm, unhindered

    load = weighed(codec, messages)
    store = await unhindered(cell, codec, messages, port, BUSY)
    live, late = await calm(cell, codec, messages, port, BUSY)
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


BARS = [Bar("limited links", limited_links)]
