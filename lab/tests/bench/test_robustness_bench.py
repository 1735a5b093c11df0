"""The bars on robustness at small sizes: they count what their tools find, and point at what to replay."""

import pytest

from thinwire.testing.worlds.stream_world import StreamWorldSummary
from thinwire_lab.bench import robustness_bench as bars
from thinwire_lab.bench.benchmark import Setting


class SmallSetting(Setting):
    def size(self, full, quick):
        return 3


def test_both_hold_at_small_sizes():
    rows = [row for bar in bars.WIRE for row in bar.measure(SmallSetting())]
    assert [row.value for row in rows] == [0, 0]
    assert all(row.holds for row in rows)


def test_a_broken_seed_is_named(monkeypatch):
    monkeypatch.setattr(bars, "run_seeds", lambda *_, **__: StreamWorldSummary(3, failed={2: ["t off by 3"]}))
    (row,) = bars.worlds(SmallSetting())
    assert row.value == 1
    assert row.holds is False
    assert row.note == "replay: python -m thinwire.testing.worlds.stream_world 2"


@pytest.mark.slow
def test_quick_sizes_hold():
    assert all(row.holds for bar in bars.WIRE for row in bar.measure(Setting(quick=True)))
