"""The receiving ends of a log: what one link cannot read costs the others nothing."""

import pytest
from translation_setup import Log

from thinwire.codec import EventsMissed
from thinwire.errors import UnknownSchema
from thinwire.schema import Property, Schema
from thinwire.topics.log_decoder import LogDecoder

ROOMS = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])


def test_an_error_of_one_link_takes_nothing_of_the_others_with_it():
    log, known = Log(ROOMS, publishers=["p1"]), {ROOMS.fingerprint: ROOMS}
    log.publish("p1", {"room": "a", "t": 20.0})
    log.publish("p1", {"room": "a", "t": 21.0})  # which the log has not kept for this reader
    log.start_publisher("p2")
    log.publish("p1", {"room": "a", "t": 22.0})
    log_decoder = LogDecoder(known.get)
    for stored in log.messages[:2]:
        log_decoder.receive(stored, 0.0)
    known.clear()
    with pytest.raises(UnknownSchema):
        log_decoder.receive(log.messages[3], 0.0)
    known[ROOMS.fingerprint] = ROOMS
    assert log_decoder.decode(log.messages[3], 0.0) == []
    assert log_decoder.receive(log.messages[4], 0.0) == [EventsMissed("p1", None, None, None, "gap")]
