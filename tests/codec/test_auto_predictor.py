"""`auto`: nearly as small as the best fixed predictor, equal at both ends, in bounded memory."""

import math

import numpy as np
import pytest
from loopback import Loop

from thinwire.codec import Demand, StreamConfig, StreamEncoder
from thinwire.codec.predictor_trials import POOL
from thinwire.codec.predictors import names
from thinwire.codec.predictors.arithmetic import SEASONAL
from thinwire.codec.source_table import MODE, TRIAL
from thinwire.schema import Property, Schema
from thinwire.wire import FrameKind, Switch, read

EVENTS = 3_000
TENTHS = Schema("s", [Property("id", "string", "dimension"), Property("x", "number", step="0.1", period=48)])


def noise(scale):
    return np.random.default_rng(7).normal(0, scale, EVENTS)


STREAMS = {
    "constant": np.full(EVENTS, 200.0),
    "ramp": np.arange(EVENTS) * 3.0,
    "jittery ramp": np.arange(EVENTS) * 3.0 + noise(4),
    "noise": 200 + noise(20),
    "walk": np.cumsum(noise(6)),
    "season": np.array([1000 * math.sin(2 * math.pi * k / 48) for k in range(EVENTS)]),
    "steps": np.repeat(np.random.default_rng(3).integers(0, 500, EVENTS // 100), 100).astype(float),
}


def size(stream, predictor, tolerance):
    demand = Demand(tolerance={"x": tolerance}, predictor=predictor)
    publisher = StreamEncoder(TENTHS, StreamConfig(demand=demand, max_silence=1e6, key_frame_interval=1e6))
    publisher.start(0)
    for value in np.round(stream):
        publisher.publish({"id": "a", "x": float(value) / 10}, 0)
    return publisher.counts.frame_bytes


@pytest.mark.parametrize("tolerance", [0, 0.5])
@pytest.mark.parametrize("name", STREAMS)
def test_auto_is_nearly_as_small_as_the_best_predictor(name, tolerance):
    fixed = {predictor: size(STREAMS[name], predictor, tolerance) for predictor in names()}
    # the cost of selection: about 150 events under the first predictor, and the switch frames
    assert size(STREAMS[name], "auto", tolerance) <= 1.05 * min(fixed.values()) + 600, fixed


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_predictor_switches_are_sent_and_both_ends_agree(compiled):
    loop = Loop(TENTHS, compiled=compiled)
    stream = np.concatenate([STREAMS["season"][:600], STREAMS["ramp"][:2_000]])
    events = [{"id": "a", "x": float(value) / 10} for value in np.round(stream)]
    assert loop.run(events) == events
    switches = [Switch.decode(read(frame).body) for frame in loop.frames if read(frame).kind == FrameKind.SWITCH]
    assert {change.mode & 15 for switch in switches for change in switch.changes} >= {SEASONAL}
    assert len(switches) < 10
    assert loop.differences() == []


def test_a_new_source_starts_with_the_predictor_selected_last():
    loop = Loop(TENTHS)
    loop.run([{"id": "old", "x": k * 0.3} for k in range(400)])
    loop.run([{"id": "new", "x": k * 0.3} for k in range(3)])
    table = loop.publisher.frame_encoder.reducer.table
    modes = [table.cells[table.slot_start(row, 0) + MODE] for row in range(2)]
    assert modes[0] == modes[1] != 0


def test_the_number_of_concurrent_trials_is_bounded():
    publisher = StreamEncoder(TENTHS, compiled=False)
    for n in range(5):
        for source in range(POOL + 200):
            publisher.publish({"id": str(source), "x": float(n)}, 0)
    reducer = publisher.frame_encoder.reducer
    table = reducer.table.view().reshape(reducer.table.rows, -1)
    on_trial = table[:, TRIAL]
    assert np.count_nonzero(on_trial) == POOL
    assert len(set(on_trial[on_trial > 0].tolist())) == POOL
    assert reducer.trials.blocks.shape[0] == POOL
