"""Benchmarks of the codec: processor time compared with reference methods, and memory with many sources.

A time is the median over rounds. In each round both methods process the same block of events, and take turns in going
first; the garbage collector is on, as in production.

Memory is measured in a process of its own for each end. A stream with one source comes first, so that imports and
compiled kernels are not counted. Frames pass from one process to the other through a file.
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
from thinwire_lab.bench.benchmark import Benchmark, Row, Setting, time_blocks
from thinwire_lab.streams.checked_stream import is_switch
from thinwire_lab.streams.sensor_stream import SENSORS, changed_share, sensor_batch, sensor_events, sensor_schema

MAX_MEGABYTES = 300.0
"""growth with 100,000 sources"""
MEMORY_ROUNDS = 2
"""events of each source: the first one defines it, the second one changes every value"""


def many_sources(setting: Setting) -> Iterator[Row]:
    """Measure both ends and report the larger growth."""
    sources = setting.size(100_000, 5_000)
    with TemporaryDirectory() as folder:
        frames = str(Path(folder) / "frames")
        publisher = _grow("publisher", sources, frames)
        setting.progress(0.6)
        subscriber = _grow("subscriber", sources, frames)
    how = f"{sources:,} sources, 10 values each: publisher {publisher:.0f} MB, subscriber {subscriber:.0f} MB"
    high = MAX_MEGABYTES * sources / 100_000
    name = "many sources in one stream: growth of the process"
    yield Row(name, "MB", max(publisher, subscriber), high=high, how=how)


def _grow(end: str, sources: int, frames: str) -> float:
    """Return the megabytes by which a new process grows."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        return executor.submit(_measure, end, sources, frames).result() / 1e6


def _encode(sources: int, path: Path) -> StreamEncoder:
    publisher = StreamEncoder(sensor_schema())
    with path.open("wb") as file:
        _write(file, publisher.start(0.0))
        for number in range(MEMORY_ROUNDS):
            for source in range(sources):
                _write(file, publisher.publish(_event(source, number), float(number)))
    return publisher


def _decode(path: Path) -> StreamDecoder:
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
    """Return the bytes by which this process grows."""
    import psutil

    process = psutil.Process()
    with TemporaryDirectory() as folder:
        small = Path(folder) / "warm"
        _encode(1, small)
        _decode(small)
    before = process.memory_info().rss
    end_of_stream = _encode(sources, Path(frames)) if end == "publisher" else _decode(Path(frames))
    grown = int(process.memory_info().rss) - int(before)
    assert end_of_stream.counts.frames
    return grown


MEMORY_BENCHMARKS = [Benchmark("many sources", many_sources)]


SOURCES = 10
ROUNDS = 11
FIXED, AUTO, COSTLY = "last", "auto", "trend"
"""on this stream `auto` keeps `last`, so a predictor with more computation is timed, too"""
MAX_PUBLISH_TIMES = {FIXED: 0.5, AUTO: 1.0, COSTLY: None}
MAX_RECEIVE_TIME = 0.8
MIN_BATCH_RATES = {FIXED: 3e7, AUTO: 1e7, COSTLY: None}


def publish_time(setting: Setting) -> Iterator[Row]:
    """Time the encoder: from a dict to a frame, with all checks."""
    block = setting.size(5_000, 1_000)
    schema, events = sensor_events((ROUNDS + 1) * block, SOURCES)
    blocks = _blocks(events, block)
    how = f"{ROUNDS} rounds of {block:,} events, {100 * changed_share(events, SOURCES):.0f} % of the values change"
    for predictor, high in MAX_PUBLISH_TIMES.items():
        publish = _timed_encoder(schema, predictor)
        ratios, ours = _race(publish, _each(pack_json), blocks, setting)
        name = f"publish an event, predictor {predictor}: time to json.dumps + deflate"
        details = f"{how}; {ours:.1f} us an event; {_switches(schema, predictor, events):,} switches"
        yield Row(name, "times", median(ratios), high=high, how=details)


def receive_time(setting: Setting) -> Iterator[Row]:
    """Time the decoder: from a frame to a dict."""
    block = setting.size(5_000, 1_000)
    schema, events = sensor_events((ROUNDS + 1) * block, SOURCES)
    publisher = StreamEncoder(schema, StreamConfig(demand=Demand(predictor=FIXED)))
    subscriber = StreamDecoder([schema])
    for frame in publisher.start(0.0):
        subscriber.receive(frame, now=0.0)
    messages = [(publisher.publish(event, event["time"] / 1000), pack_json(event)) for event in events]
    receive = subscriber.receive

    def decode(pairs: list[Any]) -> None:
        for frames, _ in pairs:
            for frame in frames:
                receive(frame, now=0.0)

    def reference(pairs: list[Any]) -> None:
        for _, packed in pairs:
            unpack_json(packed)

    ratios, ours = _race(decode, reference, _blocks(messages, block), setting)
    how = f"{ROUNDS} rounds of {block:,} events; {ours:.1f} us an event"
    yield Row("receive an event: time to inflate + json.loads", "times", median(ratios), high=MAX_RECEIVE_TIME, how=how)


def batch_rate(setting: Setting) -> Iterator[Row]:
    """Measure the batch encoder on one core: from Arrow batches, made outside of the timed part, to frames."""
    from thinwire.codec.batch_encoder import publish_batch

    large, small, rounds = setting.size(100_000, 5_000), setting.size(20_000, 1_000), setting.size(ROUNDS, 3)
    stream = sensor_batch((rounds + 2) * large, SOURCES)
    schema = sensor_schema()
    cases = [(predictor, large, low) for predictor, low in MIN_BATCH_RATES.items()]
    for predictor, size, low in (*cases, (FIXED, small, None)):
        batches = [stream.slice(at, size) for at in range(0, (rounds + 2) * size, size)]
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
        yield Row(name, "values/s", median(rates[2:]), low=low, how=how)


def _switches(schema: Schema, predictor: str, events: list[Any]) -> int:
    """Return how often the predictor changed, counted outside of the timed part."""
    publisher = StreamEncoder(schema, StreamConfig(demand=Demand(predictor=predictor)))
    publisher.start(0.0)
    return sum(is_switch(frame) for event in events for frame in publisher.publish(event, event["time"] / 1000))


def pack_json(event: dict[str, Any]) -> bytes:
    """Encode and compress an event. `json.dumps` is fastest without options."""
    return zlib.compress(json.dumps(event).encode(), LEVEL, wbits=RAW_DEFLATE)


def unpack_json(message: bytes) -> Any:
    """Return the event of a message of `pack_json`."""
    return json.loads(zlib.decompress(message, wbits=RAW_DEFLATE))


def _timed_encoder(schema: Any, predictor: str) -> Callable[[list[Any]], None]:
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
    reference: Callable[[list[Any]], None],
    blocks: list[list[Any]],
    setting: Setting,
) -> tuple[list[float], float]:
    """Return the ratio of both times for each round, and our median in microseconds."""
    (own, other), _ = time_blocks((ours, reference), blocks, setting.progress)
    ratios = [mine / theirs for mine, theirs in zip(own, other, strict=True)]
    return ratios, median(seconds / len(block) * 1e6 for seconds, block in zip(own, blocks[1:], strict=True))


def _blocks(items: list[Any], size: int) -> list[list[Any]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


SPEED_BENCHMARKS = [
    Benchmark("publish time", publish_time),
    Benchmark("receive time", receive_time),
    Benchmark("batch rate", batch_rate),
]
