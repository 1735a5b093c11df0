"""Why compiled frames are not packed: numbers have nothing to share, and what has goes the way that packs."""

import random

import pytest

from thinwire.codec import Demand, StreamConfig, StreamEncoder
from thinwire.codec.frame_encoder import WORTH_TRYING
from thinwire.dictionaries import choose
from thinwire.schema import Property, Schema
from thinwire.wire import read
from thinwire_lab.live.live_feed import READINGS, LoadSource, feed_schema

SIZES = (512, 1024, 2048, 4096)


def readings():
    return feed_schema(), LoadSource(0, 1, 1000, 0).due(2_000_000), Demand(dict.fromkeys(READINGS, 0.5))


def many_that_all_move():
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


def said(stream, *, compiled, dictionary=None):
    """The frames of the first third of the events, and those of the others, with a dictionary from there on."""
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
    """The share of the bytes that a dictionary within the usual budget saves, trained on the first third."""
    first, plain = said(stream, compiled=False)
    long = [body for body in (read(frame).body for frame in first) if len(body) >= WORTH_TRYING]
    dictionary = choose(long, sizes=SIZES)
    if dictionary is None:
        return None
    _, packed = said(stream, compiled=compiled, dictionary=dictionary)
    assert len(packed) == len(plain)
    return 1 - sum(map(len, packed)) / sum(map(len, plain))


def test_of_a_few_readings_no_dictionary_can_be_made():
    assert saved(readings(), compiled=False) is None


def test_of_many_readings_none_is_worth_its_time():
    assert saved(many_that_all_move(), compiled=False) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("compiled", [False, True])
def test_texts_are_packed_either_way(compiled):
    assert saved(requests(), compiled=compiled) > 0.4
