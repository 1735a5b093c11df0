"""Memory: how much a process grows when a link comes to know many sources.

Each end runs in a process of its own, started for this: first a link with one source, so that imports and compiled
kernels are not counted, then the measured one. Frames pass from one to the other through a file.

Time: processor seconds as multiples of a reference method's in the same run, and values a second in batches.

Each figure is the median over rounds. In a round both methods process the same block of events, one after the other,
and take turns in going first; the garbage collector stays on, as it is in production.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from thinwire.analysis.json_baseline import LEVEL, RAW_DEFLATE
from thinwire.codec import Demand, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.schema import Schema
from thinwire.testing.sensor_stream import SENSORS, changed_share, sensor_batch, sensor_events, sensor_schema
from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.streams.checked_stream import is_switch

MEMORY_ROUNDS = 2
"""events of each source: one makes it known, the next changes every value"""


def many_sources(setting: Setting) -> Iterator[Row]:
    """The larger of both ends."""
    sources = setting.size(100_000, 5_000)
    with TemporaryDirectory() as folder:
        frames = str(Path(folder) / "frames")
        publisher = _grow("publisher", sources, frames)
        setting.progress(0.6)
        subscriber = _grow("subscriber", sources, frames)
    how = f"{sources:,} sources, 10 values each: publisher {publisher:.0f} MB, subscriber {subscriber:.0f} MB"
    bar = 300.0 * sources / 100_000
    yield Row("many sources on one link: growth of the process", "MB", max(publisher, subscriber), high=bar, how=how)


def _grow(end: str, sources: int, frames: str) -> float:
    """Megabytes by which a fresh process grows."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(_measure, end, sources, frames).result() / 1e6


def _publish(sources: int, path: Path) -> StreamEncoder:
    publisher = StreamEncoder(sensor_schema())
    with path.open("wb") as file:
        _write(file, publisher.start(0.0))
        for number in range(MEMORY_ROUNDS):
            for source in range(sources):
                _write(file, publisher.publish(_event(source, number), float(number)))
    return publisher


def _receive(path: Path) -> StreamDecoder:
    subscriber = StreamDecoder([sensor_schema()])
    with path.open("rb") as file:
        while head := file.read(4):
            subscriber.receive(file.read(int.from_bytes(head)), now=0.0)
    return subscriber


def _event(source: int, number: int) -> dict[str, Any]:
    values = {s.name: (s.level + number * (source % 7 + 1)) / 10**s.decimals for s in SENSORS}
    return {"time": 1_700_000_000_000 + 1000 * number + source % 20, "machine": f"machine-{source:06d}", **values}


def _write(file: Any, frames: list[bytes]) -> None:
    for frame in frames:
        file.write(len(frame).to_bytes(4) + frame)


def _measure(end: str, sources: int, frames: str) -> int:
    """Bytes by which this process grows."""
    import psutil

    process = psutil.Process()
    with TemporaryDirectory() as folder:
        small = Path(folder) / "warm"
        _publish(1, small)
        _receive(small)
    before = process.memory_info().rss
    link = _publish(sources, Path(frames)) if end == "publisher" else _receive(Path(frames))
    grown = int(process.memory_info().rss) - int(before)
    assert link.counts.frames
    return grown


MEMORY_REQUIREMENTS = [Bar("many sources", many_sources)]


SOURCES = 10
ROUNDS = 11
FIXED, AUTO, COSTLY = "last", "auto", "trend"
"""on this stream `auto` finds nothing better than `last`, so a predictor that computes more is timed beside it"""


def publish_time(setting: Setting) -> Iterator[Row]:
    """A dict goes in, a frame comes out, all checks on."""
    block = setting.size(5_000, 1_000)
    schema, events = sensor_events((ROUNDS + 1) * block, SOURCES)
    blocks = _blocks(events, block)
    how = f"{ROUNDS} rounds of {block:,} events, {100 * changed_share(events, SOURCES):.0f} % of the values change"
    for predictor, bar in ((FIXED, 0.5), (AUTO, 1.0), (COSTLY, None)):
        publish = _publisher(schema, predictor)
        ratios, ours = _race(publish, _each(pack_json), blocks, setting)
        name = f"publish an event, predictor {predictor}: time to json.dumps + deflate"
        told = f"{how}; {ours:.1f} us an event; {_switches(schema, predictor, events):,} switches"
        yield Row(name, "times", median(ratios), high=bar, how=told)


def receive_time(setting: Setting) -> Iterator[Row]:
    """A frame goes in, a dict comes out."""
    block = setting.size(5_000, 1_000)
    schema, events = sensor_events((ROUNDS + 1) * block, SOURCES)
    publisher = StreamEncoder(schema, StreamConfig(demand=Demand(predictor=FIXED)))
    subscriber = StreamDecoder([schema])
    for frame in publisher.start(0.0):
        subscriber.receive(frame, now=0.0)
    messages = [(publisher.publish(event, event["time"] / 1000), pack_json(event)) for event in events]
    receive = subscriber.receive

    def take(pairs: list[Any]) -> None:
        for frames, _ in pairs:
            for frame in frames:
                receive(frame, now=0.0)

    def reference(pairs: list[Any]) -> None:
        for _, packed in pairs:
            unpack_json(packed)

    ratios, ours = _race(take, reference, _blocks(messages, block), setting)
    how = f"{ROUNDS} rounds of {block:,} events; {ours:.1f} us an event"
    yield Row("receive an event: time to inflate + json.loads", "times", median(ratios), high=0.8, how=how)


def batch_rate(setting: Setting) -> Iterator[Row]:
    """Arrow batches in, frames out, on one core; the batches are made outside the timed part."""
    from thinwire.codec.batch_encoder import publish_batch

    large, small, rounds = setting.size(100_000, 5_000), setting.size(20_000, 1_000), setting.size(ROUNDS, 3)
    whole = sensor_batch((rounds + 2) * large, SOURCES)
    schema = sensor_schema()
    for predictor, size, bar in ((FIXED, large, 3e7), (AUTO, large, 1e7), (COSTLY, large, None), (FIXED, small, None)):
        batches = [whole.slice(at, size) for at in range(0, (rounds + 2) * size, size)]
        publisher = StreamEncoder(schema, StreamConfig(demand=Demand(predictor=predictor)))
        publisher.start(0.0)
        rates = []
        for batch in batches:
            now = batch.column("time")[-1].as_py() / 1000
            begin = process_time()
            publish_batch(publisher, batch, now)
            rates.append(size * len(schema.wire) / (process_time() - begin))
        name = f"batches of {size:,}, predictor {predictor}: property values a second, one core"
        how = f"median of {rounds} batches of {size:,} events, {len(schema.wire)} values each, {SOURCES} sources"
        yield Row(name, "values/s", median(rates[2:]), low=bar, how=how)


def _switches(schema: Schema, predictor: str, events: list[Any]) -> int:
    """How often the predictor changed, counted apart from the timed part."""
    publisher = StreamEncoder(schema, StreamConfig(demand=Demand(predictor=predictor)))
    publisher.start(0.0)
    return sum(is_switch(frame) for event in events for frame in publisher.publish(event, event["time"] / 1000))


def pack_json(event: dict[str, Any]) -> bytes:
    """Encode and compress an event. `json.dumps` is fastest without options."""
    return zlib.compress(json.dumps(event).encode(), LEVEL, wbits=RAW_DEFLATE)


def unpack_json(message: bytes) -> Any:
    """Return the event of a message of `pack_json`."""
    return json.loads(zlib.decompress(message, wbits=RAW_DEFLATE))


def _publisher(schema: Any, predictor: str) -> Callable[[list[Any]], None]:
    publisher = StreamEncoder(schema, StreamConfig(demand=Demand(predictor=predictor)))
    publisher.start(0.0)
    publish = publisher.publish

    def run(events: list[Any]) -> None:
        for event in events:
            publish(event, event["time"] / 1000)

    return run


def _each(function: Callable[[Any], Any]) -> Callable[[list[Any]], None]:
    def run(items: list[Any]) -> None:
        for item in items:
            function(item)

    return run


def _race(
    ours: Callable[[list[Any]], None],
    theirs: Callable[[list[Any]], None],
    blocks: list[list[Any]],
    setting: Setting,
) -> tuple[list[float], float]:
    """Ratios of both times, round by round, and the median of ours in microseconds; the first block warms up."""
    ours(blocks[0])
    theirs(blocks[0])
    ratios, own = [], []
    for number, block in enumerate(blocks[1:]):
        if number % 2:
            mine, reference = _timed(ours, block), _timed(theirs, block)
        else:
            reference, mine = _timed(theirs, block), _timed(ours, block)
        ratios.append(mine / reference)
        own.append(mine / len(block) * 1e6)
        setting.progress((number + 1) / (len(blocks) - 1))
    return ratios, median(own)


def _timed(method: Callable[[list[Any]], None], block: list[Any]) -> float:
    begin = process_time()
    method(block)
    return process_time() - begin


def _blocks(items: list[Any], size: int) -> list[list[Any]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


SPEED_REQUIREMENTS = [
    Bar("publish time", publish_time),
    Bar("receive time", receive_time),
    Bar("batch rate", batch_rate),
]
