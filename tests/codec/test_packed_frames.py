"""Frames packed with dictionaries: binding, selection and decoding."""

import pytest
from dictionary_setup import DICTIONARIES, LOGS, Reader, entry, publisher

from thinwire.codec import EventsMissed, State
from thinwire.codec import stream_snapshot as checkpoints
from thinwire.codec.dictionary_bindings import Packer
from thinwire.dictionaries import Dictionary
from thinwire.errors import ConfigError, CorruptFrame, UnknownDictionary
from thinwire.schema import Property, Schema
from thinwire.wire import Binding, FrameKind, join, read

STORE = {d.hash: d for d in DICTIONARIES}


def kinds(frames):
    return [FrameKind(read(frame).kind) for frame in frames]


def slots(frames):
    return [read(frame).slot for frame in frames]


@pytest.mark.parametrize("form", ["compact", "json"])
@pytest.mark.parametrize("number", range(len(DICTIONARIES)))
def test_packed_events_are_restored(form, number):
    out, reader = publisher(format=form), Reader(STORE)
    for frame in out.start(0.0) + out.publish(entry(0), 0.0):
        reader.hand(frame)
    plain = out.publish(entry(1), 0.0)
    packed = out.use(DICTIONARIES[number], 7) + out.publish(entry(2), 0.0)
    assert kinds(packed)[0] is FrameKind.BINDING
    assert slots(packed)[1] == 7
    assert len(packed[1]) < len(plain[0])
    for message in (join(plain), join(packed)):
        reader.hand(message)
    assert [dict(event) for event in reader.events] == [entry(n) for n in range(3)]
    assert reader.requested == [DICTIONARIES[number].hash.hex()]


def test_no_packed_frame_is_larger_than_the_plain_one():
    odd = Dictionary(b"\x00" * 64, "zstd", level=3, largest=64)
    schema = Schema("noise", [Property("n", "integer"), Property("raw", "opaque")])
    plain, packed = publisher(schema), publisher(schema)
    packed.use(odd, 1)
    for n in range(64):
        event = {"n": n * 7919, "raw": bytes((n * k * 131 + k) % 251 for k in range(n))}
        (one,), (other,) = plain.publish(event, 0.0)[:1], packed.publish(event, 0.0)[:1]
        assert len(other) <= len(one)


def test_key_frames_and_bindings_are_never_packed_with_a_dictionary():
    out = publisher()
    out.start(0.0)
    for n in range(50):
        out.publish(entry(n, host=f"host-{n}"), 0.0)
    out.use(DICTIONARIES[0], 1)
    round_ = out.start(1.0)
    assert kinds(round_) == [FrameKind.KEY, FrameKind.BINDING]
    assert slots(round_) == [0, None]


def test_key_frames_are_followed_by_the_active_bindings():
    out = publisher()
    out.use(DICTIONARIES[0], 1)
    out.use(DICTIONARIES[1], 2, expires=10)
    out.use(DICTIONARIES[2], 3)
    out.drop(3)
    bindings = [Binding.decode(read(f).body) for f in out.start(5.0) if read(f).kind == FrameKind.BINDING]
    assert bindings == [Binding(1, DICTIONARIES[0].hash, 0), Binding(2, DICTIONARIES[1].hash, 10)]
    later = [Binding.decode(read(f).body) for f in out.start(10.0) if read(f).kind == FrameKind.BINDING]
    assert [binding.slot for binding in later] == [1]


def test_the_dictionary_with_the_latest_expiry_is_used_until_then():
    out = publisher()
    out.start(0.0)
    out.publish(entry(0), 0.0)
    out.use(DICTIONARIES[0], 1, expires=100)
    out.use(DICTIONARIES[1], 2, expires=50)
    assert slots(out.publish(entry(1), 10.0)) == [1]
    out.use(DICTIONARIES[1], 2, expires=200)
    assert slots(out.publish(entry(2), 60.0)) == [2], "prolonged"
    assert slots(out.publish(entry(3), 199.9)) == [2]
    assert slots(out.publish(entry(4), 200.0)) == [None]
    assert slots(out.publish(entry(5), 10.0)) == [None], "a clock that runs backwards reactivates nothing"


def test_a_reused_slot_is_decoded_with_the_binding_at_its_position():
    out, reader = publisher(), Reader(STORE)
    frames = out.start(0.0)
    for n in range(6):
        frames += out.use(DICTIONARIES[n % 3], 7) + out.publish(entry(n), 0.0)
    late = Reader(STORE)
    for frame in frames:
        reader.hand(frame)
    late.hand(join(frames))
    assert [dict(e) for e in reader.events] == [dict(e) for e in late.events] == [entry(n) for n in range(6)]


def test_a_message_resumes_at_the_frame_that_waited():
    out, reader = publisher(), Reader(STORE)
    reader.hand(join(out.start(0.0) + out.publish(entry(0), 0.0)), position=1)
    frames = [frame for n in range(1, 300) for frame in out.publish(entry(n), 0.0)]
    frames += out.use(DICTIONARIES[0], 1) + out.publish(entry(300), 0.0)
    frames += out.use(DICTIONARIES[1], 2) + out.publish(entry(301), 0.0) + out.publish(entry(302), 0.0)
    reader.hand(join(frames), position=2)
    assert [event["n"] for event in reader.events] == list(range(303)), "each once, more than a link remembers"
    assert len(reader.requested) == 2
    assert not any(isinstance(thing, EventsMissed) for thing in reader.out)


def test_a_missing_dictionary_is_named_and_the_stream_continues():
    out, reader = publisher(), Reader({})
    frames = out.start(0.0) + out.publish(entry(0), 0.0) + out.use(DICTIONARIES[0], 9) + out.publish(entry(1), 0.0)
    reader.hand(join(frames + out.start(1.0)))
    assert reader.refused == [DICTIONARIES[0].hash.hex()]
    assert reader.subscriber.state is State.READY, "the key frame behind it could be read"
    assert [thing.reason for thing in reader.out if isinstance(thing, EventsMissed)] == ["unknown dictionary"]
    assert [event["n"] for event in reader.events] == [0, 1], "the key frame contains the current state"
    out.drop(9)
    reader.hand(join(out.publish(entry(2), 1.0)))
    assert reader.events[-1]["n"] == 2


def test_another_message_drops_the_pending_one():
    out, reader = publisher(), Reader({})
    reader.hand(join(out.start(0.0) + out.publish(entry(0), 0.0)))
    with pytest.raises(UnknownDictionary) as caught:
        reader.subscriber.receive(join(out.use(DICTIONARIES[0], 9) + out.publish(entry(1), 0.0)), now=0.0)
    assert (caught.value.slot, caught.value.publisher) == (9, "p")
    assert reader.subscriber.state is State.READY, "nothing is lost yet"
    out.drop(9)
    reader.hand(join(out.publish(entry(2), 0.0)))
    assert [thing.reason for thing in reader.out if isinstance(thing, EventsMissed)] == ["unknown dictionary"]
    assert reader.subscriber.poll(0.0), "a key frame is requested"


def test_an_unbound_slot_is_rejected():
    out, reader = publisher(), Reader(STORE)
    reader.hand(join(out.start(0.0) + out.publish(entry(0), 0.0)))
    out.frame_encoder.packer.use(DICTIONARIES[0], 3)
    with pytest.raises(UnknownDictionary, match="not bound"):
        reader.subscriber.receive(out.publish(entry(1), 0.0)[0], now=0.0)
    assert reader.subscriber.state is State.WAITING


def test_a_dictionary_with_another_hash_is_rejected():
    out = publisher()
    reader = Reader({DICTIONARIES[0].hash: DICTIONARIES[1]})
    reader._dictionaries[DICTIONARIES[0].hash] = DICTIONARIES[1]
    reader.store.clear()
    reader.hand(join(out.start(0.0) + out.use(DICTIONARIES[0], 1) + out.publish(entry(0), 0.0)))
    assert not reader.events
    assert reader.refused


def test_a_snapshot_contains_the_bindings():
    out, reader = publisher(), Reader(STORE)
    reader.hand(join(out.start(0.0) + out.publish(entry(0), 0.0) + out.use(DICTIONARIES[0], 1)))
    for snapshot in (checkpoints.snapshot_decoder(reader.subscriber), checkpoints.snapshot_encoder(out)):
        later = Reader(STORE)
        checkpoints.restore_decoder(later.subscriber, snapshot)
        assert later.subscriber.decoder_state.bindings.active() == [Binding(1, DICTIONARIES[0].hash, 0)]
    later.hand(join(out.publish(entry(1), 0.0)))
    assert dict(later.events[0]) == entry(1)


def test_a_snapshot_without_bindings_has_the_former_format():
    out = publisher()
    out.start(0.0)
    before = checkpoints.snapshot_encoder(out)
    out.use(DICTIONARIES[0], 1)
    out.drop(1)
    out.start(1.0)
    assert len(checkpoints.snapshot_encoder(out)) == len(before)


def test_a_new_configuration_keeps_the_dictionaries():
    from dataclasses import replace

    out, reader = publisher(), Reader(STORE)
    frames = out.start(0.0) + out.publish(entry(0), 0.0) + out.use(DICTIONARIES[0], 1)
    frames += out.reconfigure(replace(out.config, version=2), 1.0)
    packed = out.publish(entry(1), 1.0)
    assert slots(packed) == [1]
    reader.hand(join(frames + packed))
    assert reader.events[-1]["n"] == 1


@pytest.mark.parametrize("slot", [0, 256, -1, True, 1.5])
def test_slots_have_limits(slot):
    with pytest.raises(ConfigError, match="slot"):
        Packer().use(DICTIONARIES[0], slot)


@pytest.mark.parametrize("body", [b"", bytes(18), b"\x07" + bytes(16), b"\x07" + bytes(16) + b"\x01\x01"])
def test_an_invalid_binding_is_rejected(body):
    with pytest.raises(CorruptFrame):
        Binding.decode(body)


def test_a_binding_round_trips():
    binding = Binding(255, bytes(range(16)), 1 << 40)
    assert Binding.decode(binding.encode()) == binding
    assert len(Binding(1, bytes(16), 0).encode()) == 18


def test_texts_are_packed_with_the_body():
    """A deflated text cannot be packed with a dictionary, so texts stay plain in the body."""
    out = publisher()
    out.start(0.0)
    out.publish(entry(0), 0.0)
    out.use(DICTIONARIES[0], 1)
    assert len(out.publish(entry(1), 0.0)[0]) < 40
    assert LOGS["line"].kind.value == "string"
