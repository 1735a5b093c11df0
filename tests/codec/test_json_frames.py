"""The fast path for JSON frames gives the same state and deliveries as decoding each frame on its own."""

import json
from unittest.mock import patch

from dictionary_setup import DICTIONARIES, publisher
from hypothesis import example, given, settings
from hypothesis import strategies as st

from thinwire.codec import Demand, StreamDecoder, resolve, stream_decoder, value_decoder
from thinwire.codec.row_snapshot import snapshot_row
from thinwire.codec.source_table import SourceTable
from thinwire.dictionaries import Dictionary
from thinwire.errors import CorruptFrame, PeerFault
from thinwire.schema import Event, Property, Schema
from thinwire.wire import FrameKind, join, read

READINGS = Schema(
    "readings",
    [
        Property("time", "timestamp", "header", form="epoch", step=1),
        Property("id", "string", "dimension"),
        Property("t", "number", step="0.1", minimum=-50, maximum=200),
        Property("far", "number", step="0.1"),
        Property("third", "number", step="0.3"),
        Property("count", "integer"),
        Property("loud", "float", minimum=0, maximum=9),
        Property("on", "boolean"),
        Property("note", "string"),
        Property("where", "geo"),
    ],
)
WORDS = Dictionary(b'{"@":[0,0],"time":1000,"t":20.5,"third":0.9,"note":"', "zstd", level=3, largest=64)
STORE = {d.hash: d for d in [*DICTIONARIES, WORDS]}

numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(-500, 500),
    st.integers(-3000, 3000).map(lambda n: n / 10),
    st.floats(allow_nan=False),
    st.sampled_from([2**53, 2**53 + 1, -(2**61), 2**61, 2.0**61, 1e300, -0.0, 0.3, 0.9, 200.1]),
)
anything = (
    numbers | st.none() | st.booleans() | st.text(max_size=3) | st.just([52.5, 13.4]) | st.just({"$bytes": "AA=="})
)
bodies = st.builds(
    lambda source, skip, written: json.dumps({"@": [source, skip], **written}).encode(),
    st.integers(0, 2),
    st.sampled_from([0, 0, 1, 3, 2**40]),
    st.dictionaries(
        st.sampled_from(["time", "t", "far", "third", "count", "loud", "on", "note", "where", "else"]), anything
    ),
)
strange = st.sampled_from(
    [b"", b"{", b'\xef\xbb\xbf{"@":[0,0]}', '{"@":[0,0],"count":7}'.encode("utf-16"), b' {"@":[0,0]} ']
)
steps = st.one_of(
    st.tuples(st.just("event"), st.integers(0, 400), st.sampled_from("ab")),
    st.tuples(st.just("event"), st.integers(0, 400), st.sampled_from("ab")),
    st.tuples(st.just("body"), bodies | strange),
    st.tuples(st.just("use"), st.sampled_from([WORDS, DICTIONARIES[1]]), st.integers(1, 2)),
    st.tuples(st.just("payload"), st.binary(max_size=3)),
    st.sampled_from([("send",), ("round",), ("lose",), ("twice",), ("unbound",)]),
    st.tuples(st.just("spoil"), st.integers(0, 10**6), st.just(1) | st.integers(1, 255)),
)


class Site:
    """A JSON publisher and two decoders: one with the fast path, one without."""

    def __init__(self, predictor, wide=False):
        demand = Demand(default_tolerance=0, predictor=predictor)
        self.publisher = publisher(READINGS, format="json", demand=demand, wide=wide)
        self.frames = []
        self.readers = [
            StreamDecoder([READINGS], publisher="p", compiled=False, dictionaries=STORE.get) for _ in range(2)
        ]
        self.round()
        self.event(0, "a")
        self.event(0, "b")
        self.send()

    def event(self, n, source):
        reading = {"time": 1000 + n, "id": source, "t": n / 10, "far": n / 10, "third": n * 3 / 10, "count": n // 9}
        values = {"loud": n / 64, "on": n % 2 == 0, "note": f"n{n % 5}", "where": [52.5, n / 100]}
        self.frames += self.publisher.publish(reading | values, 0.0)

    def body(self, body):
        self.frames.append(self.publisher.frame_encoder.frame(FrameKind.JSON, body))

    def payload(self, body):
        self.frames.append(self.publisher.frame_encoder.frame(FrameKind.PAYLOAD, body))

    def use(self, dictionary, slot):
        self.frames += self.publisher.use(dictionary, slot)

    def unbound(self):
        self.publisher.frame_encoder.packer.use(WORDS, 9)

    def round(self):
        self.frames += self.publisher.start(0.0)

    def lose(self):
        middle = len(self.frames) // 2
        del self.frames[middle : middle + 1]

    def twice(self):
        self.frames += self.frames[-2:]

    def spoil(self, at, by):
        """Change one byte of a message: a digit to another digit, which only the check reveals, or any byte."""
        self.event(at % 400, "a")
        message = bytearray(join(self.frames))
        digits = [index for index, byte in enumerate(message) if byte in b"0123456789"]
        message[digits[at % len(digits)] if by == 1 and digits else at % len(message)] ^= by
        self.hand(bytes(message))

    def send(self):
        if self.frames:
            self.hand(join(self.frames))

    def hand(self, message):
        self.frames = []
        short, long = self.readers
        found = received(short, message)
        with (
            patch.object(stream_decoder, "handle_json_frames", lambda *given: None),
            patch.object(value_decoder, "_number_setter", general_setter),
        ):
            assert received(long, message) == found
        assert state_of(long) == state_of(short)


def general_setter(table, rule, set_any):
    return set_any


def received(reader, message):
    try:
        return [(repr(thing), repr(getattr(thing, "_about", ""))) for thing in reader.receive(message, now=0.0)]
    except PeerFault as fault:
        return repr(fault)


def state_of(reader):
    decoder_state = reader.decoder_state
    if decoder_state is None:
        return reader.state, reader.counts
    rows = [(event.ordinal, repr(event)) for event in reader.current_events()]
    return reader.state, reader.counts, rows, list(decoder_state.stream.cells), decoder_state.sequencer.dedup.hashes()


@given(st.lists(steps, max_size=30), st.sampled_from(["last", "linear", "trend"]), st.booleans())
@example(
    [("event", 1, "a"), ("body", b'{"@":[0,3],"count":1e999}'), ("send",), ("event", 2, "a"), ("send",)], "last", True
)
@example(
    [("event", 1, "a"), ("use", WORDS, 1), ("event", 2, "a"), ("unbound",), ("event", 3, "a"), ("send",)], "last", False
)
@example([("spoil", 30, 1), ("round",), ("use", WORDS, 1), ("spoil", 31, 1), ("spoil", 32, 1)], "last", False)
@settings(max_examples=60, deadline=None)
def test_the_fast_and_the_general_path_give_the_same_state(steps, predictor, wide):
    site = Site(predictor, wide)
    for step, *given_ in steps:
        getattr(site, step)(*given_)
    site.send()


@given(st.lists(st.tuples(st.sampled_from(range(len(READINGS.wire))), numbers), max_size=8), st.booleans())
@example([(1, 200.1), (1, 20.05), (2, 2**53 + 1), (2, 2.0**60), (3, 0.9), (3, 3), (4, 2**62), (2, 1e300)], True)
@settings(max_examples=100, deadline=None)
def test_fast_and_general_setters_store_the_same_value(written, moving):
    rules = resolve(READINGS, Demand(predictor="linear" if moving else "last"))
    found = []
    for way in (value_decoder._number_setter, general_setter):
        table = SourceTable(rules)
        table.add()
        with patch.object(value_decoder, "_number_setter", way):
            setters = [value_decoder.value_setter(table, rule, index) for index, rule in enumerate(rules.rules)]
        answers = [stored(table, setters[index], value) for index, value in written]
        found.append((answers, snapshot_row(table, 0), table.approximate))
    assert found[0] == found[1]


def stored(table, set_value, value):
    try:
        answer = set_value(0, value)
    except CorruptFrame as problem:
        return str(problem)
    table.advance(0)
    return answer, type(answer)


def test_packed_and_plain_json_frames_use_the_fast_path():
    site = Site("last")
    for n in range(1, 4):
        site.event(n, "a")
    site.use(WORDS, 1)
    for n in range(4, 8):
        site.event(n, "a")
    assert {read(frame).slot for frame in site.frames if read(frame).kind == FrameKind.JSON} == {None, 1}
    with patch.object(stream_decoder, "handle_frame", wraps=stream_decoder.handle_frame) as closely:
        found = site.readers[0].receive(join(site.frames), now=0.0)
    assert FrameKind.JSON not in [call.args[1].kind for call in closely.call_args_list]
    assert [event["t"] for event in found if isinstance(event, Event)] == [n / 10 for n in range(1, 8)]
