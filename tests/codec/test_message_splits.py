"""Any split of frames into messages gives the same deliveries and counts."""

import pytest
from event_strategies import histories, small
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_observer import chain_after

from thinwire.codec import Demand, EventsMissed, State, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.codec.compiled_decoder import CompiledDecoder
from thinwire.codec.frame_sequencer import DEDUP_FRAMES, FrameDedup
from thinwire.errors import PeerFault, UnknownSchema
from thinwire.schema import Event, Property, Schema
from thinwire.wire import FrameKind, Request, join, read, split
from thinwire.wire.frame import size_in_batch
from thinwire.wire.stream_state import CHAIN

WAYS = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
SCHEMA = Schema(
    "mixed",
    [
        Property("time", "timestamp", "header", form="iso:T3Z"),
        Property("sensor", "string", "dimension"),
        Property("temperature", "number", step="0.1", minimum=-20, maximum=50, period=4),
        Property("count", "integer", period=3),
        Property("tons", "number", step="5"),
        Property("thirds", "number", step="1/3"),
        Property("level", "float"),
        Property("fan", "boolean"),
        Property("mode", "enum", members=["off", "on"]),
        Property("seen.at", "timestamp", step="5"),
    ],
)


def delivered(reader, messages):
    """Return the deliveries of messages as plain values, including errors."""
    found = []
    for message in messages:
        try:
            found += reader.receive(message, now=0.0)
        except PeerFault as problem:
            found.append(type(problem))
    found += reader.mark_lost("end")
    return [plain(item) for item in found]


def plain(item):
    if not isinstance(item, Event):
        return item
    typed = {name: (type(value), value) for name, value in item.items()}
    return (typed, item.identity, dict(item.bound), item.virtual, item.provisional, item.flags)


def history(max_size):
    """Events that are mostly regular, or anything."""
    return histories(SCHEMA, small, max_size=max_size) | histories(SCHEMA, max_size=max_size)


def frames_of(data, max_size=60):
    """Return the frames of a publisher with switches, heartbeats, audits, introductions and requests."""
    predictor = data.draw(st.sampled_from(["last", "linear", "trend", "auto"]))
    demand = Demand(default_tolerance=data.draw(st.sampled_from([0, 3, 40])), predictor=predictor)
    config = StreamConfig(demand=demand, audit_every=data.draw(st.sampled_from([0, 9])), max_silence=7)
    writer = StreamEncoder(SCHEMA, config, name="p", wide=data.draw(st.booleans()), compiled=False)
    frames = writer.start(0)
    requests_at = data.draw(st.sets(st.integers(2, 60), max_size=4))
    for now, event in enumerate(data.draw(history(max_size))):
        frames += writer.publish(event, now)
        if now in requests_at:
            frames += writer.answer(Request(1, 0), now)
    return frames + writer.heartbeat(100)


def cut(data, frames):
    """Split frames into messages of any size."""
    messages, at = [], 0
    while at < len(frames):
        size = data.draw(st.integers(1, 25))
        messages.append(join(frames[at : at + size]))
        at += size
    return messages


def spoil(data, frames):
    """Drop, repeat or alter some frames; some altered frames have a valid check."""
    indexes = st.integers(0, len(frames) - 1)
    faults = data.draw(st.dictionaries(indexes, st.sampled_from(["lost", "twice", "altered", "mended"]), max_size=4))
    out, chain = [], 0
    for number, frame in enumerate(frames):
        fault = faults.get(number)
        spoilt = altered(data, frame, chain, mended=fault == "mended") if fault in ("altered", "mended") else frame
        chain = chain_after(frame, chain)
        out += [spoilt] * {"lost": 0, "twice": 2}.get(fault, 1)
    # a frame altered into a batch would be split alone and rejected among others
    return [frame for frame in out if frame[0] & 0x0F != FrameKind.BATCH]


def altered(data, frame, chain, *, mended):
    spoilt = bytearray(frame)
    first = read(frame).header_size if mended else 0
    if first == len(spoilt) or (mended and read(frame).kind == FrameKind.KEY):
        return frame  # nothing to alter, or an unknown version, which ends its message with an error
    spoilt[data.draw(st.integers(first, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    if mended:
        spoilt[first - 1] = chain_after(bytes(spoilt), chain) & 0xFF
    return bytes(spoilt)


@pytest.mark.parametrize("include_suppressed", [True, False], ids=["all", "delivered"])
@pytest.mark.parametrize("spoilt", [False, True], ids=["whole", "spoilt"])
@settings(max_examples=25)
@given(data=st.data())
def test_any_split_into_messages_gives_the_same_deliveries(spoilt, include_suppressed, data):
    frames = frames_of(data)
    if spoilt:
        frames = spoil(data, frames)
    messages = cut(data, frames)
    ways = [(True, messages), (True, frames), (False, frames), (False, messages)]
    readers = [
        StreamDecoder([SCHEMA], publisher="p", compiled=compiled, include_suppressed=include_suppressed)
        for compiled, _ in ways
    ]
    first, *others = [delivered(reader, parts) for reader, (_, parts) in zip(readers, ways, strict=True)]
    for other, reader in zip(others, readers[1:], strict=True):
        assert other == first
        assert reader.counts == readers[0].counts
    assert readers[0].counts.frames == len(frames)
    assert readers[0].counts.frame_bytes == sum(len(frame) for frame in frames)


@WAYS
@settings(max_examples=30)
@given(data=st.data())
def test_a_batch_that_cannot_be_split_gives_no_events(compiled, data):
    frames = frames_of(data, max_size=20)
    batch = join(frames[1:]) if len(frames) > 2 else join([*frames[1:], *frames[1:]])
    spoilt = data.draw(
        st.sampled_from(
            [
                batch[:-1],
                batch + b"\x00",
                batch + b"\x85\x00\x01\x00\x00ab",
                batch + b"\x04\x09\x01\x00\x00",
                batch + b"\xff\xff\xff\x7f",
            ]
        )
    )
    reader = StreamDecoder([SCHEMA], publisher="p", compiled=compiled)
    reader.receive(frames[0], now=0)
    assert reader.receive(spoilt, now=0) == [EventsMissed("p", None, None, None, "corrupt")]
    assert reader.counts.frames == 1


@WAYS
def test_an_error_within_a_message_keeps_the_deliveries_before_it(compiled):
    rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("n", "integer")])
    newer = Schema("rooms", [*rooms.properties, Property("on", "boolean")], version=2)
    old = StreamEncoder(rooms, StreamConfig(demand=Demand(predictor="last")), name="p", compiled=False)
    new = StreamEncoder(newer, name="p", incarnation=2, compiled=False)
    reader = StreamDecoder([rooms], publisher="p", compiled=compiled)
    before = old.start(0) + old.publish({"room": "a", "n": 0}, 0)
    reader.receive(join(before), now=0)
    frames = [frame for n in (5, 6, 7) for frame in old.publish({"room": "a", "n": n}, 0)]
    with pytest.raises(UnknownSchema):
        reader.receive(join([*frames, *new.start(0), *frames]), now=0)
    assert reader.state is State.WAITING
    delivered_items = reader.receive(b"", now=0)
    assert [item["n"] for item in delivered_items if isinstance(item, Event)] == [5, 6, 7]
    assert delivered_items[-1] == EventsMissed("p", None, None, None, "restart")
    assert reader.counts.frames == len(before) + 3 + 1 + 1


NUMBERS = Schema(
    "numbers",
    [
        Property("id", "string", "dimension"),
        *(Property(name, "integer") for name in ("n", "m")),
        Property("x", "float"),
    ],
)
QUIET = StreamConfig(demand=Demand(predictor="last"), max_silence=1e9)


def test_data_frames_between_others_are_decoded_in_runs(monkeypatch):
    writer = StreamEncoder(NUMBERS, QUIET, compiled=False)
    reader = StreamDecoder([NUMBERS])
    values = [*range(20), None, *range(20, 30)]
    frames = writer.start(0)
    for n in values:
        frames += writer.publish({"id": "a", "n": n, "m": 1, "x": 0.5}, 0)
    runs = []
    take = CompiledDecoder.decode

    def watched(self, *arguments, **wanted):
        runs.append(take(self, *arguments, **wanted))
        return runs[-1]

    monkeypatch.setattr(CompiledDecoder, "decode", watched)
    reader.receive(join(frames), now=0)
    # not decoded in a run: key frame, introduction, heartbeat, the absent value and the one after it
    assert [taken for _, taken, _ in runs] == [19, 9]
    assert runs[-1][0] == len(join(frames))
    assert reader.counts.events == len(values)


@pytest.mark.parametrize("absent", [None, 2.0**57], ids=["absent", "huge"])
def test_absent_and_very_large_values_between_others(absent):
    schema = Schema(
        "s", [Property("id", "string", "dimension"), Property("n", "number", step="0.1"), *NUMBERS.properties[2:]]
    )
    publishers = [StreamEncoder(schema, QUIET, compiled=False) for _ in range(2)]
    events = [{"id": "ab"[k % 2], "n": absent if k % 2 else 1.5, "m": k // 6, "x": k / 3} for k in range(90)]
    frames = [join([*writer.start(0), *(f for e in events for f in writer.publish(e, 0))]) for writer in publishers]
    seen = [StreamDecoder([schema], compiled=way).receive(frames[0], now=0) for way in (True, False)]
    assert [plain(item) for item in seen[0]] == [plain(item) for item in seen[1]]
    assert [dict(item) for item in seen[0] if isinstance(item, Event)] == events


@WAYS
def test_an_invalid_frame_keeps_the_suppressed_events_before_it(compiled):
    """The frame toggles an absent value; the suppressed events before it are valid."""
    readers = [StreamDecoder([NUMBERS], compiled=compiled) for _ in range(2)]
    writer, liar = (StreamEncoder(NUMBERS, QUIET, compiled=False) for _ in range(2))
    first = {"id": "a", "n": 1, "m": None, "x": 0.5}
    frames = writer.start(0) + writer.publish(first, 0)
    liar.start(0)
    liar.publish({**first, "m": 7}, 0)
    for _ in range(3):
        assert writer.publish(first, 0) == liar.publish({**first, "m": 7}, 0) == []
    (lie,) = liar.publish({**first, "n": 2, "m": 8}, 0)
    chain = writer.frame_encoder.stream.cells[CHAIN]
    lie = lie[:2] + bytes((chain_after(lie, chain) & 0xFF,)) + lie[3:]
    for reader in readers:
        reader.receive(join(frames), now=0)
    batched = readers[0].receive(join([lie, lie]), now=0)
    alone = readers[1].receive(lie, now=0)
    assert [plain(item) for item in batched] == [plain(item) for item in alone]
    assert [item.ordinal for item in alone[:-1]] == [2, 3, 4]
    assert alone[-1] == EventsMissed("", None, None, None, "corrupt")


@WAYS
@pytest.mark.parametrize("size", [1, 7, 300, 3000])
def test_long_messages_and_long_suppressed_runs(compiled, size):
    schema = Schema("s", [Property("id", "integer", "dimension"), Property("n", "integer"), Property("m", "integer")])
    writer = StreamEncoder(schema, StreamConfig(demand=Demand(predictor="last"), max_silence=1e9), compiled=False)
    reader = StreamDecoder([schema], compiled=compiled)
    frames = writer.start(0)
    events = [{"id": k % 3, "n": k // 9 if k < 30_000 else 0, "m": 1} for k in range(36_000)] + [
        {"id": k, "n": -1, "m": 2} for k in range(3)
    ]
    for event in events:
        frames += writer.publish(event, 0)
    seen = [
        item
        for at in range(0, len(frames), size)
        for item in reader.receive(join(frames[at : at + size]), now=0)
        if isinstance(item, Event)
    ]
    expected = {k: [event["n"] for event in events if event["id"] == k] for k in range(3)}
    assert {k: [event["n"] for event in seen if event["id"] == k] for k in range(3)} == expected
    assert all(event.ordinal > 0 for event in seen)
    assert reader.counts.frames == len(frames)
    assert reader.counts.events == len(events)


@WAYS
@pytest.mark.parametrize("size", [1, 40, 400])
def test_a_repeated_frame_is_a_duplicate(compiled, size):
    schema = Schema("s", [Property("n", "integer")])
    writer = StreamEncoder(schema, StreamConfig(demand=Demand(predictor="last"), max_silence=1e9), compiled=False)
    reader = StreamDecoder([schema], compiled=compiled)
    frames = writer.start(0)
    for n in range(600):
        frames += writer.publish({"n": n * n}, 0)
    for at in range(0, len(frames), size):
        reader.receive(join(frames[at : at + size]), now=0)
    assert reader.receive(join(frames[-DEDUP_FRAMES:]), now=0) == []
    assert reader.counts.duplicates == DEDUP_FRAMES
    assert reader.receive(frames[-DEDUP_FRAMES - 1], now=0) == [EventsMissed("", None, None, None, "gap")]


def test_recent_frames_are_recognised_single_or_batched():
    frames = [bytes((1, k & 255, k >> 8)) for k in range(1000)]
    single, batched = FrameDedup(), FrameDedup()
    for k, frame in enumerate(frames):
        single.add(k, frame)
    for at in range(0, 1000, 300):
        batched.add(at, join(frames[at : at + 300]), len(frames[at : at + 300]))
    for recent in (single, batched):
        assert [k for k, frame in enumerate(frames) if recent.contains(k, frame)] == list(
            range(1000 - DEDUP_FRAMES, 1000)
        )
    single.add(1000, b"\x01" * 2_000_000)
    assert single.contains(1000, b"\x01" * 2_000_000)
    single.clear()
    assert not single.contains(999, frames[-1])


@given(st.lists(st.integers(1, 40_000), min_size=2, max_size=5))
def test_the_size_of_a_frame_in_a_batch(sizes):
    frames = [b"\x01" * size for size in sizes]
    message = join(frames)
    assert split(message) == frames
    assert len(message) == 1 + sum(size_in_batch(frame) for frame in frames)


@WAYS
@settings(max_examples=20)
@given(data=st.data())
def test_peek_changes_no_state(compiled, data):
    predictor = data.draw(st.sampled_from(["last", "linear", "trend", {"temperature": "seasonal"}]))
    demand = Demand(default_tolerance=2, predictor=predictor)
    writer = StreamEncoder(SCHEMA, StreamConfig(demand=demand, max_silence=1e9), name="p", compiled=False)
    looking, not_looking = (StreamDecoder([SCHEMA], publisher="p", compiled=compiled) for _ in range(2))
    assert looking.peek() == []
    events = data.draw(histories(SCHEMA))
    ahead = []
    for frames in [writer.start(0), *(writer.publish(event, 0) for event in events), writer.heartbeat(1)]:
        message = [join(frames)] if frames else []
        seen = sent_events(looking, message)
        ahead = looking.peek()
        assert [plain(item) for item in seen] == [plain(item) for item in sent_events(not_looking, message)]
    assert all(event.provisional and event.virtual and set(event.bound.values()) == {None} for event in ahead)
    for event in ahead:
        (row,) = (row for row in range(len(ahead)) if looking.decoder_state.expander.keys[row] == event.source)
        (came,) = not_looking.decoder_state.expand_suppressed(row, 1)
        assert (dict(came), came.identity) == (dict(event), event.identity)


def sent_events(reader, messages):
    return [item for message in messages for item in reader.receive(message, now=0)]


@WAYS
def test_has_unsent_suppressed(compiled):
    schema = Schema("s", [Property("id", "string", "dimension"), Property("n", "integer")])
    writer = StreamEncoder(schema, StreamConfig(demand=Demand(predictor="last"), max_silence=1e9), compiled=compiled)
    writer.start(0)
    assert not writer.has_unsent_suppressed
    for name in "ab":
        writer.publish({"id": name, "n": 1}, 0)
    assert not writer.has_unsent_suppressed
    assert writer.publish({"id": "a", "n": 1}, 0) == []
    assert writer.has_unsent_suppressed
    writer.publish({"id": "a", "n": 2}, 0)
    assert not writer.has_unsent_suppressed
    writer.publish({"id": "b", "n": 1}, 0)
    assert writer.has_unsent_suppressed
    writer.heartbeat(1)
    assert not writer.has_unsent_suppressed
