"""Stream decoders of a log: a stream that cannot be read does not affect the others."""

import pytest
from translation_setup import Log

from thinwire.codec import EventsMissed
from thinwire.errors import UnknownSchema
from thinwire.schema import Property, Schema
from thinwire.topics.log_decoder import LogDecoder

ROOMS = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])


def test_an_error_of_one_stream_does_not_affect_the_others():
    log, schemas = Log(ROOMS, publishers=["p1"]), {ROOMS.fingerprint: ROOMS}
    log.publish("p1", {"room": "a", "t": 20.0})
    log.publish("p1", {"room": "a", "t": 21.0})  # not retained for this reader
    log.start_publisher("p2")
    log.publish("p1", {"room": "a", "t": 22.0})
    log_decoder = LogDecoder(schemas.get)
    for stored in log.messages[:2]:
        log_decoder.receive(stored, 0.0)
    schemas.clear()
    with pytest.raises(UnknownSchema):
        log_decoder.receive(log.messages[3], 0.0)
    schemas[ROOMS.fingerprint] = ROOMS
    assert log_decoder.decode(log.messages[3], 0.0) == []
    assert log_decoder.receive(log.messages[4], 0.0) == [EventsMissed("p1", None, None, None, "gap")]
