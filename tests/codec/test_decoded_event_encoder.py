"""Events of a decoder encoded in batches give the same bytes as one at a time."""

import random

import pytest
from event_strategies import histories
from hypothesis import given, settings
from hypothesis import strategies as st
from test_class_streams import SCHEMAS, C, Chain, P

from thinwire.codec import Demand, StreamConfig, StreamEncoder
from thinwire.codec.decoded_event_encoder import encode_decoded_events
from thinwire.errors import TooManySources
from thinwire.schema import Event, Property, Schema

EXAMPLES = 25
WAYS = {
    "auto": {},
    "last": {"predictor": "last"},
    "hold": {"mode": "hold"},
    "changes": {"mode": "hold", "changes": True},
}


def decoded(schema, events, demand):
    """Return the decoded events of a history, and the decoder."""
    chain = Chain(schema, demand)
    found = []
    for event in events:
        chain.now += 1
        for frame in chain.publisher.publish(event, chain.now):
            found += [thing for thing in chain.decoder.receive(frame, now=chain.now) if isinstance(thing, Event)]
    return found, chain.decoder


def encoder_over(decoder, schema, demand, **config):
    """Return an encoder for the events of a decoder."""
    rules = decoder.decoder_state.rules
    return StreamEncoder(
        schema, StreamConfig(demand=demand, **config), name="p", incarnation=3, over=rules, validated=True
    )


def sequential(link, events, now):
    return [(number, frame) for number, event in enumerate(events) for frame in link.publish(event, now)]


def batched(link, events, now):
    return [
        pair
        for some in encode_decoded_events(link, events, now)
        for pair in zip(some.numbers, some.frames, strict=True)
    ]


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
@pytest.mark.parametrize("way", sorted(WAYS))
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_batched_and_sequential_encoding_give_the_same_frames(kind, way, data):
    schema = SCHEMAS[kind]
    history = data.draw(histories(schema, max_size=40))
    events, decoder = decoded(schema, history, Demand(P[kind]))
    demand = Demand(C[kind], **WAYS[way])
    config = {"key_frame_interval": data.draw(st.sampled_from([3.0, 3600.0]))}
    alone, many = (encoder_over(decoder, schema, demand, **config) for _ in range(2))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
    for now, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(events)], strict=True), start=1):
        message = events[first:last]
        assert batched(many, message, float(now)) == sequential(alone, message, float(now))
    assert many.counts == alone.counts
    assert (many.sequence, many.suppressed_events) == (alone.sequence, alone.suppressed_events)
    assert many.heartbeat(99.0) == alone.heartbeat(99.0)


QUICK = Schema(
    "quick",
    [
        Property("sensor", "string", "dimension"),
        Property("heat", "number", step="0.1", maximum=60),
        Property("count", "integer"),
        Property("mode", "enum", members=["off", "on"]),
    ],
)


def readings(count, seed=3):
    """Return readings that vary; some are irregular, missing, in another mode, or of a new sensor."""
    dice, heat = random.Random(seed), 20.0
    for number in range(count):
        heat = round(heat + dice.choice((-0.4, -0.1, 0.0, 0.1, 0.5)), 1)
        odd = dice.random() < 0.03
        yield {
            "sensor": f"s{dice.randrange(1 + number // 100)}",
            "heat": dice.choice((None, 99.0, 20.05)) if odd else heat,
            "count": number // 3,
            "mode": "on" if dice.random() < 0.05 else "off",
        }


@pytest.mark.parametrize("way", sorted(WAYS))
def test_more_events_than_fit_one_packed_batch(way):
    events, decoder = decoded(QUICK, readings(1500), Demand())
    demand = Demand({"heat": 0.5, "count": 2}, **WAYS[way])
    alone, many = (encoder_over(decoder, QUICK, demand) for _ in range(2))
    assert many.frame_encoder.compiled is not None
    assert batched(many, events, 1.0) == sequential(alone, events, 1.0)
    assert many.counts == alone.counts
    assert many.counts.events == len(events)


def until_rejected(pieces):
    found = []
    try:
        for frames in pieces:
            found += frames
    except TooManySources:
        return found
    pytest.fail("nothing was refused")


def test_a_rejected_event_keeps_the_frames_before_it():
    events, decoder = decoded(QUICK, readings(400), Demand())
    alone, many = (encoder_over(decoder, QUICK, Demand({"heat": 0.5}), max_sources=3) for _ in range(2))
    found = until_rejected(some.frames for some in encode_decoded_events(many, events, 1.0))
    expected = until_rejected(alone.publish(event, 1.0) for event in events)
    assert found == expected
    assert many.counts == alone.counts
    assert 300 < many.counts.events < 400
