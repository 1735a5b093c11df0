"""Compiled frames are not packed: numbers share nothing, and texts are encoded by scalar code, which packs."""

import random

import pytest

from thinwire.codec import Demand, StreamConfig, StreamEncoder
from thinwire.codec.dictionary_bindings import MIN_PACKED_BYTES
from thinwire.dictionaries import choose
from thinwire.schema import Property, Schema
from thinwire.wire import read
from thinwire_lab.live.live_feed import READINGS, LoadSource, feed_schema

SIZES = (512, 1024, 2048, 4096)


def readings():
    return feed_schema(), LoadSource(0, 1, 1000, 0).due(2_000_000), Demand(dict.fromkeys(READINGS, 0.5))


def moving_readings():
    names, chance = [f"v{k}" for k in range(24)], random.Random(1)
    schema = Schema(
        "wide", [Property("machine", "string", "dimension"), *(Property(n, "number", step="0.01") for n in names)]
    )
    values, events = dict.fromkeys(names, 100.0), []
    for _ in range(1_500):
        values = {name: round(value + chance.gauss(0, 2), 2) for name, value in values.items()}
        events.append({"machine": "m1", **values})
    return schema, events, Demand()


def requests():
    chance = random.Random(1)
    schema = Schema(
        "requests",
        [
            Property("host", "string", "dimension"),
            Property("load", "number", step="0.01"),
            Property("request", "string"),
        ],
    )
    events = [
        {
            "host": "h1",
            "load": chance.randrange(900) / 100,
            "request": f"GET /shop/items/{chance.randrange(99999)} HTTP/1.1",
        }
        for _ in range(1_500)
    ]
    return schema, events, Demand({"load": 0.5})


def encoded_parts(stream, *, compiled, dictionary=None):
    """Return the frames of the first third of the events, and those of the others, with a dictionary from there on."""
    schema, events, demand = stream
    publisher = StreamEncoder(schema, StreamConfig(1, demand), compiled=compiled)
    publisher.await_dictionaries()
    publisher.start(0.0)
    third = len(events) // 3
    first = [frame for event in events[:third] for frame in publisher.publish(event, 0.0)]
    if dictionary is not None:
        publisher.use(dictionary, slot=1)
    return first, [frame for event in events[third:] for frame in publisher.publish(event, 0.0)]


def saved(stream, *, compiled):
    """Return the share of bytes that a dictionary of the usual size saves, trained on the first third."""
    first, plain = encoded_parts(stream, compiled=False)
    long = [body for body in (read(frame).body for frame in first) if len(body) >= MIN_PACKED_BYTES]
    dictionary = choose(long, sizes=SIZES)
    if dictionary is None:
        return None
    _, packed = encoded_parts(stream, compiled=compiled, dictionary=dictionary)
    assert len(packed) == len(plain)
    return 1 - sum(map(len, packed)) / sum(map(len, plain))


def test_few_readings_give_no_dictionary():
    assert saved(readings(), compiled=False) is None


def test_a_dictionary_of_readings_saves_nothing():
    assert saved(moving_readings(), compiled=False) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("compiled", [False, True])
def test_texts_are_packed_with_and_without_kernels(compiled):
    assert saved(requests(), compiled=compiled) > 0.4
