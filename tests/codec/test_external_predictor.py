"""A predictor that an application defines and registers: same values at both ends, within the bound."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

import thinwire as tw
from thinwire.codec import Demand, State, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.codec.predictors import CustomPredictor, by_name, catalogue, names, register
from thinwire.codec.row_snapshot import snapshot_row
from thinwire.codec.stream_snapshot import restore_decoder, snapshot_decoder, snapshot_encoder
from thinwire.errors import ConfigError, CorruptCheckpoint, UnknownPredictor
from thinwire.schema import Event, Property, Schema

SCHEMA = Schema(
    "tanks",
    [
        Property("tank", "string", "dimension"),
        Property("level", "number", step="0.1"),
        Property("flow", "integer"),
    ],
)


class Acceleration(CustomPredictor):
    """Predict the next value from the last step and the change of steps; `a` stores the last step."""

    name = "acceleration"

    @staticmethod
    def next_value(x1, x2, a, b):
        return x1 + 2 * (x1 - x2) - a

    @staticmethod
    def next_state(x, x1, x2, a, b):
        return x1 - x2, b + 1


class Halved(CustomPredictor):
    """Predict half of the last step."""

    name = "halved"

    @staticmethod
    def next_value(x1, x2, a, b):
        return x1 + (x1 - x2) // 2


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(catalogue, "_CUSTOM", {})
    register(Acceleration)
    register(Halved)


DEMAND = Demand({"level": 0.3, "flow": 2}, predictor={"level": "acceleration", "flow": "halved"})


def encoder_of(demand=DEMAND):
    return StreamEncoder(SCHEMA, StreamConfig(demand=demand), name="p")


def decoder_of():
    return StreamDecoder([SCHEMA], publisher="p")


def received(decoder, frames):
    return [item for frame in frames for item in decoder.receive(frame, now=0.0) if isinstance(item, Event)]


def parabola(count, tank="a"):
    return [{"tank": tank, "level": n * n / 10, "flow": 3 * n} for n in range(count)]


def states_of(encoder, decoder):
    tables = encoder.frame_encoder.reducer.table, decoder.decoder_state.expander.table
    return [snapshot_row(table, 0) for table in tables]


LEVELS = st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6)), min_size=1, max_size=30)


@given(LEVELS)
def test_decoded_values_are_within_the_bound_and_states_are_equal(ticks):
    encoder, decoder = encoder_of(), decoder_of()
    events = [{"tank": "a", "level": level / 10, "flow": flow} for level, flow in ticks]
    decoded = received(decoder, encoder.start(0.0))
    for event in events:
        decoded += received(decoder, encoder.publish(event, 0.0))
    decoded += received(decoder, encoder.heartbeat(0.0))
    assert [event.ordinal for event in decoded] == list(range(1, len(events) + 1))
    for event, result in zip(events, decoded, strict=True):
        assert abs(event["level"] - result["level"]) <= result.bound["level"] + 1e-9
        assert abs(event["flow"] - result["flow"]) <= result.bound["flow"]
    here, there = states_of(encoder, decoder)
    assert here == there


def test_the_custom_arithmetic_decides_what_is_sent():
    custom, linear = encoder_of(), encoder_of(Demand(DEMAND.tolerance, predictor="linear"))
    for encoder in (custom, linear):
        encoder.start(0.0)
    sent = [[bool(encoder.publish(event, 0.0)) for event in parabola(40)] for encoder in (custom, linear)]
    assert sum(sent[0]) < sum(sent[1])


def test_a_decoder_that_starts_at_key_frames_follows():
    encoder, decoder = encoder_of(), decoder_of()
    encoder.start(0.0)
    events = parabola(30)
    for event in events[:20]:
        encoder.publish(event, 0.0)
    assert len(received(decoder, encoder.start(0.0))) == 1
    for event in events[20:]:
        received(decoder, encoder.publish(event, 0.0))
    received(decoder, encoder.heartbeat(0.0))
    here, there = states_of(encoder, decoder)
    assert here == there


@pytest.mark.parametrize("of_encoder", [True, False], ids=["encoder", "decoder"])
def test_a_snapshot_restores_the_predictor_state(of_encoder):
    encoder, decoder = encoder_of(), decoder_of()
    received(decoder, encoder.start(0.0))
    events = parabola(40)
    for event in events[:20]:
        received(decoder, encoder.publish(event, 0.0))
    received(decoder, encoder.heartbeat(0.0))
    restored = decoder_of()
    restore_decoder(restored, snapshot_encoder(encoder) if of_encoder else snapshot_decoder(decoder))
    frames = [frame for event in events[20:] for frame in encoder.publish(event, 0.0)] + encoder.heartbeat(0.0)
    assert [dict(event) for event in received(restored, frames)] == [dict(event) for event in received(decoder, frames)]
    assert restored.state is State.READY


def test_a_decoder_without_the_predictor_names_it(monkeypatch):
    encoder, decoder = encoder_of(), decoder_of()
    frames = encoder.start(0.0) + encoder.publish(parabola(1)[0], 0.0)
    snapshot = snapshot_encoder(encoder)
    monkeypatch.delitem(catalogue._CUSTOM, "halved")
    with pytest.raises(UnknownPredictor, match="halved"):
        decoder.receive(frames[0], now=0.0)
    assert decoder.state is State.WAITING
    with pytest.raises((UnknownPredictor, CorruptCheckpoint), match="halved"):
        restore_decoder(decoder_of(), snapshot)
    register(Halved)
    received(decoder, frames)
    assert decoder.state is State.READY


def test_an_unknown_name_in_a_demand_is_rejected():
    with pytest.raises(ConfigError, match="nowhere"):
        encoder_of(Demand(predictor="nowhere"))
    assert {"acceleration", "halved"} <= set(names())
    assert isinstance(by_name("halved"), Halved)


class Floating(CustomPredictor):
    name = "floating"

    @staticmethod
    def next_value(x1, x2, a, b):
        return x1 + (x1 - x2) / 2


class Last(Halved):
    name = "last"


class Other(Halved):
    name = "acceleration"


class Spaced(Halved):
    name = "two words"


@pytest.mark.parametrize("predictor", [Floating, Last, Other, Spaced])
def test_registration_rejects_floats_and_names_that_are_taken_or_invalid(predictor):
    with pytest.raises(ConfigError, match=predictor.name):
        register(predictor)
    assert by_name("last").name == "last"


def test_an_installed_distribution_supplies_predictors_by_entry_point(tmp_path, monkeypatch):
    (tmp_path / "halving_predictor.py").write_text(
        "from thinwire.codec.predictors import CustomPredictor, register\n"
        "@register\n"
        "class Halving(CustomPredictor):\n"
        "    name = 'halving'\n"
        "    @staticmethod\n"
        "    def next_value(x1, x2, a, b):\n"
        "        return x1 // 2\n"
    )
    metadata = tmp_path / "halving-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: halving\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[thinwire.predictors]\nhalving = halving_predictor\n")
    with pytest.raises(ConfigError, match="unknown predictor"):
        by_name("halving")
    monkeypatch.syspath_prepend(tmp_path)
    assert by_name("halving").name == "halving"
    assert catalogue.custom_by_name("halving").next_value(9, 0, 0, 0) == 4


async def deliver_over_a_bus(events):
    """Publish events on a topic that uses the predictors; return what a log and a channel subscription deliver."""
    async with tw.connect("memory://external-predictor") as bus:
        await bus.register(SCHEMA, predictor={"level": "acceleration", "flow": "halved"})
        strict = bus.subscribe("tanks", tolerance={"level": 0.3})
        coarse = bus.subscribe("tanks", tolerance={"level": 5.0, "flow": 2})
        async with strict, coarse, bus.publisher("tanks", name="p") as out:
            for event in events:
                await out.publish(event)
            await out.flush()
            return [
                [await asyncio.wait_for(anext(subscription), 30) for _ in events] for subscription in (strict, coarse)
            ]


def test_a_topic_with_the_predictors_is_delivered_within_each_tolerance():
    events = parabola(60)
    for tolerance, delivered in zip((0.3, 5.0), asyncio.run(deliver_over_a_bus(events)), strict=True):
        for published, event in zip(events, delivered, strict=True):
            assert abs(event["level"] - published["level"]) <= event.bound["level"] + 1e-9
            assert event.bound["level"] <= tolerance
