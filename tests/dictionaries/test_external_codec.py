"""A codec defined outside of the package: registered by one line, then stored, transferred and used by a stream."""

import asyncio

import pytest
from client_setup import use_dictionary

import thinwire as tw
from thinwire.codec import StreamDecoder, StreamEncoder
from thinwire.dictionaries import Dictionary, codec_of, dictionary_transfer, register_codec
from thinwire.dictionaries.codecs.codec import codec_names, read_stored
from thinwire.errors import ConfigError, CorruptFrame
from thinwire.schema import Event, Property, Schema
from thinwire.wire import read

NUMBER = 200
STORED = b"\xff"


class CutCodec:
    """Removes the content of the dictionary from a message; the first byte is the offset at which it was."""

    name = "cut"

    def __init__(self, content: bytes) -> None:
        self.content = content

    def pack(self, message: bytes) -> bytes:
        if not message:
            return b""
        offset = message.find(self.content, 0, len(self.content) + STORED[0] - 1)
        if offset < 0:
            return STORED + message
        return bytes((offset,)) + message[:offset] + message[offset + len(self.content) :]

    def unpack(self, packed: bytes, limit: int) -> bytes:
        if not packed:
            return b""
        if packed[:1] == STORED:
            return read_stored(packed, STORED, limit)
        if len(packed) - 1 + len(self.content) > limit:
            raise CorruptFrame("message above the limit", limit=limit)
        offset = 1 + packed[0]
        return packed[1:offset] + self.content + packed[offset:]


def create(dictionary: Dictionary) -> CutCodec:
    return CutCodec(dictionary.content)


register_codec("cut", NUMBER, create)

TEXT = "GET /images/logo.png HTTP/1.1 200 Mozilla/5.0"
NOTES = Schema("notes", [Property("note", "string")])


def publisher() -> StreamEncoder:
    return StreamEncoder(NOTES, name="p", compiled=False)


def test_a_stream_uses_the_codec():
    dictionary = Dictionary(TEXT.encode(), "cut", level=1, largest=128)
    stored = Dictionary.decode(dictionary.encode())
    packed = dictionary_transfer.pack(stored)
    fetched = dictionary_transfer.unpack(packed.body, dictionary.hash)
    out, reader = (
        publisher(),
        StreamDecoder([NOTES], publisher="p", compiled=False, dictionaries={fetched.hash: fetched}.get),
    )
    frames = out.start(0.0) + out.use(dictionary, 3)
    sent = [f"{n} {TEXT} {n * 7919}" for n in range(20)]
    events = [frame for note in sent for frame in out.publish({"note": note}, 0.0)]
    assert 3 in {read(frame).slot for frame in events}
    received = [thing for frame in frames + events for thing in reader.receive(frame, now=0.0)]
    assert [event["note"] for event in received if isinstance(event, Event)] == sent


def test_messages_round_trip_within_the_limit():
    codec = codec_of(Dictionary(TEXT.encode(), "cut", level=1, largest=128))
    for message in (b"", b"other", TEXT.encode(), TEXT.encode() + b" more"):
        assert codec.unpack(codec.pack(message), 100) == message
    with pytest.raises(CorruptFrame, match="limit"):
        codec.unpack(codec.pack(TEXT.encode()), 5)


def test_names_and_numbers_are_unique():
    register_codec("cut", NUMBER, create)
    assert codec_names()[:4] == ["zstd", "zlib", "dense", "brief"]
    assert "cut" in codec_names()
    for name, number in (("cut", 201), ("other", NUMBER), ("other", 0), ("zstd", 202)):
        with pytest.raises(ConfigError, match="another codec"):
            register_codec(name, number, create)
    with pytest.raises(ConfigError, match="limit=255"):
        register_codec("other", 256, create)


async def deliver_over_a_bus(notes: list[str]) -> tuple[list[str], int]:
    """Publish notes with a dictionary of the codec; return what is delivered and the bytes of dictionaries fetched."""
    async with tw.connect("memory://external-codec") as bus:
        await bus.register(NOTES)
        async with bus.subscribe("notes") as subscription, bus.publisher("notes", name="p") as out:
            await use_dictionary(out, Dictionary(TEXT.encode(), "cut", level=1, largest=128), 3)
            for note in notes:
                await out.publish({"note": note})
            await out.flush()
            delivered = [(await asyncio.wait_for(anext(subscription), 30))["note"] for _ in notes]
            return delivered, subscription.dictionary_bytes


def test_a_subscription_fetches_the_dictionary_and_decodes_with_the_codec():
    notes = [f"{n} {TEXT} {n * 7919}" for n in range(20)]
    delivered, dictionary_bytes = asyncio.run(deliver_over_a_bus(notes))
    assert delivered == notes
    assert dictionary_bytes > 0
