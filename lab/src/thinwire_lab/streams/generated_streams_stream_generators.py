"""Generated streams: for machines without recordings, and for what no recording shows. They illustrate.

Every call gives the same messages, because chance has a seed. `drifting` is the one with a known answer: of its words
one is replaced every `life / words` messages, so that after `life` messages none of them is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random

from thinwire.analysis.json_baseline_references import compact_json
from thinwire.demo import building
from thinwire_lab.streams import generated_streams as stream_forms
from thinwire_lab.streams.generated_streams_stream_protobuf import as_protobuf

TAXIS = 4_000
TRIPS = 100_000
READINGS = 20_000
DRIFTING = 1_000_000
LIFE = 100_000
WORDS = 200
_START = datetime(2013, 1, 1)
_SHARES = (0.6, 0.99)
"""of trips paid in cash, and by cash or card"""


def taxi_csv() -> Iterator[bytes]:
    """Taxi trips with the columns of the DEBS 2015 challenge."""
    chance = Random(1)
    hexes = [b"%032X" % chance.getrandbits(128) for _ in range(2 * TAXIS)]
    for trip in range(TRIPS):
        taxi = chance.randrange(TAXIS)
        yield b",".join((hexes[taxi], hexes[TAXIS + taxi], *_trip(chance, trip)))


def taxi_json() -> Iterator[bytes]:
    return map(stream_forms.as_json, taxi_csv())


def taxi_xml() -> Iterator[bytes]:
    return map(stream_forms.as_xml, taxi_csv())


def taxi_protobuf() -> Iterator[bytes]:
    return map(as_protobuf, taxi_csv())


def building_json() -> Iterator[bytes]:
    """The sample building, one compact JSON object a second."""
    return map(compact_json, building.events(READINGS))


def drifting_json() -> Iterator[bytes]:
    """A million messages of which everything but the frame changes within every hundred thousand."""
    return drifting(DRIFTING, LIFE)


def drifting(messages: int, life: int, words: int = WORDS, seed: int = 1) -> Iterator[bytes]:
    """Messages of four words each, from a vocabulary that is replaced at an even pace.

    life: messages after which no word is left of those that were there
    """
    chance = Random(seed)
    vocabulary = [_word(chance) for _ in range(words)]
    for number in range(messages):
        if number * words // life != (number - 1) * words // life:
            vocabulary[number * words // life % words] = _word(chance)
        who, whom, what, how = (vocabulary[chance.randrange(words)] for _ in range(4))
        yield b'{"event":%d,"from":"%s","to":"%s","about":"%s","with":"%s"}' % (number, who, whom, what, how)


def _word(chance: Random) -> bytes:
    return bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz", k=chance.randrange(8, 25)))


def _trip(chance: Random, number: int) -> Iterator[bytes]:
    seconds = 60 * chance.randrange(1, 40)
    begin = _START + timedelta(seconds=number // 3 // 60 * 60)
    yield from (_stamp(begin), _stamp(begin + timedelta(seconds=seconds)), b"%d" % seconds)
    yield _amount(seconds / 240 * chance.uniform(0.6, 1.6))
    for _ in range(2):
        yield from (b"%.6f" % chance.gauss(-73.98, 0.02), b"%.6f" % chance.gauss(40.75, 0.02))
    yield from _fare(chance, 2.5 + seconds // 60 * 0.5)


def _fare(chance: Random, fare: float) -> Iterator[bytes]:
    paid = chance.random()
    by_card = _SHARES[0] <= paid < _SHARES[1]
    tip = round(fare * chance.choice((0.1, 0.15, 0.2)), 2) if by_card else 0.0
    tolls = 4.8 if chance.random() < 0.03 else 0.0
    yield b"CRD" if by_card else b"CSH" if paid < _SHARES[0] else b"UNK"
    yield from map(_amount, (fare, 0.5, 0.5, tip, tolls, fare + 1.0 + tip + tolls))


def _stamp(at: datetime) -> bytes:
    return at.isoformat(" ").encode()


def _amount(value: float) -> bytes:
    return b"%.2f" % value
