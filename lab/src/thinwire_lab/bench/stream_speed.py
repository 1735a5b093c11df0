"""Memory: how much a process grows when a link comes to know many sources.

Each end runs in a process of its own, started for this: first a link with one source, so that imports and compiled
kernels are not counted, then the measured one. Frames pass from one to the other through a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from thinwire.codec import Publisher, Subscriber
from thinwire.testing.sensor_stream import SENSORS, sensor_schema
from thinwire_lab.bench.benchmark import Bar, Row, Setting

ROUNDS = 2
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


def _publish(sources: int, path: Path) -> Publisher:
    publisher = Publisher(sensor_schema())
    with path.open("wb") as file:
        _write(file, publisher.start(0.0))
        for number in range(ROUNDS):
            for source in range(sources):
                _write(file, publisher.publish(_event(source, number), float(number)))
    return publisher


def _receive(path: Path) -> Subscriber:
    subscriber = Subscriber([sensor_schema()])
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


BARS = [Bar("many sources", many_sources)]
