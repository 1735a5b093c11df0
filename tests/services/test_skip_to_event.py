"""Skipping suppressed events brings a source to the same state, compiled and not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.codec import Demand, StreamConfig, StreamEncoder
from thinwire.codec.row_snapshot import snapshot_row
from thinwire.schema import Event, Property, Schema
from thinwire.services.translator.channel_encoder import skip_to_event

SCHEMA = Schema(
    "s",
    [
        Property("id", "string", "dimension"),
        Property("x", "integer", period=5),
        Property("t", "number", step="0.1", period=3),
    ],
)


def event(value, ordinal):
    return Event({"id": "a", "x": value, "t": value / 10}, bound={}, source=("a",), ordinal=ordinal)


def state_after(values, gap, predictor, *, compiled):
    """Return the state of a source after some events, with the others skipped."""
    config = StreamConfig(demand=Demand(predictor=predictor))
    encoder = StreamEncoder(SCHEMA, config, compiled=compiled, validated=True)
    encoder.start(0.0)
    for number, value in enumerate(values, 1):
        encoder.publish(event(value, number), 0.0)
    skip_to_event(encoder, event(0, len(values) + gap + 1), 0.0)
    table = encoder.frame_encoder.reducer.table
    return table.ordinal(0), snapshot_row(table, 0)


@pytest.mark.parametrize("predictor", ["auto", "last", "linear", "seasonal", "trend"])
@given(values=st.lists(st.integers(-50, 50), min_size=1, max_size=12), gap=st.integers(0, 14))
def test_compiled_and_plain_encoders_skip_to_the_same_state(predictor, values, gap):
    states = [state_after(values, gap, predictor, compiled=compiled) for compiled in (False, True)]
    assert states[0] == states[1]
    assert states[0][0] == len(values) + gap
