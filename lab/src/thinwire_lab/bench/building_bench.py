"""The building: how the generator compares with the original, then what our frames make of it. It illustrates."""

from __future__ import annotations

from collections.abc import Iterator

from thinwire.analysis import json_baseline_references as references
from thinwire.codec import Demand, LinkConfig
from thinwire.demo import building
from thinwire_lab.bench.benchmark import Bar, Row, Setting, Unit
from thinwire_lab.bench.building_bench_building_calibration import calibration as building_calibration
from thinwire_lab.streams.checked_stream import CheckedLink, seconds_of

_UNITS: dict[str, Unit] = {"bytes": "bytes", "ratio": "part", "share": "share"}

LINKS = {
    "building, exact, compact: frames to JSON": (LinkConfig(), 1 / 30),
    "building, exact, json: frames to JSON": (LinkConfig(format="json"), 1 / 10),
    "building, within 1.0, compact: frames to JSON": (LinkConfig(demand=Demand(default_tolerance=1.0)), 1 / 60),
}
"""row -> the link and its bar"""


def calibration(setting: Setting) -> Iterator[Row]:
    """Is the generated building what it claims to be? Frozen before any codec was measured on it."""
    events = setting.size(100_000, 20_000)
    for row in building_calibration(events):
        how = f"{events:,} events" + (f", original {row.published:g}" if row.published else "")
        yield Row(f"building, {row.what}", _UNITS[row.unit], row.measured, row.low, row.high, how)


def frames(setting: Setting) -> Iterator[Row]:
    """Three links carry the same events side by side."""
    # a small run is one whole day: by day more happens than at night
    total = setting.size(1_000_000, 86_400)
    schema = building.schema()
    seconds = seconds_of(schema)
    links: dict[str, CheckedLink] = {}
    raw = 0
    for done, event in enumerate(building.events(total)):
        now = seconds(event)
        links = links or {name: CheckedLink(schema, config, start=now) for name, (config, _) in LINKS.items()}
        raw += len(references.compact_json(event))
        for link in links.values():
            link.publish(event, now)
        if not done % 1000:
            setting.progress(done / total)
    for name, link in links.items():
        link.close()
        yield _row(name, link, raw)


def _row(name: str, link: CheckedLink, raw: int) -> Row:
    counts, checker = link.counts, link.checker
    how = f"{counts.events:,} events, {counts.frame_bytes / counts.events:.2f} bytes each"
    how += f" against {raw / counts.events:.1f}, largest error {100 * checker.worst:.0f} % of its bound"
    how += f"; auto switched {link.switches:,} times"
    note = "" if checker.kept else f"promise broken: {checker.first_breach or 'events are missing'}"
    return Row(name, "part", counts.frame_bytes / raw, high=LINKS[name][1], how=how, note=note, sound=checker.kept)


BARS = [Bar("building calibration", calibration), Bar("building frames", frames)]
