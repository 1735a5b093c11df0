"""Examples of dictionary bindings and payload events."""

from __future__ import annotations

from vector_recording import ROOM, Example, example

from thinwire.dictionaries import Dictionary
from thinwire.schema import Property
from thinwire.wire import FrameKind, seal
from thinwire.wire.control_frames import Binding

SAID = b"the door of the cold store was opened by somebody who left it open for a quarter of an hour "
PRESET = Dictionary(SAID, "zlib", level=6, largest=256)
BRIEF = Dictionary(SAID, "brief", level=9, largest=256)
TRAINED = Dictionary(SAID * 2 + b"and closed again", "zstd", level=3, largest=2048)


@example
def dictionaries() -> Example:
    e = Example(
        "dictionaries", "slots are bound, used, bound again, told behind key frames",
        [ROOM, Property("said", "string"), Property("n", "integer")], dictionaries=[PRESET, TRAINED],
    )  # fmt: skip
    e.start()
    e.publish("an introduction without one", said="the door was opened", n=1)
    e.hand(e.publisher.use(PRESET, 7, expires=2_000_000_000), "slot 7 is deflate with a preset dictionary")
    e.publish("packed with it", said="the door of the cold store was opened by somebody else", n=2)
    e.publish("too short to gain by it", said="the door of the cold store was opened by somebody else", n=3)
    e.publish("a source is introduced", room="11.2", said="left it open for a quarter of an hour", n=1)
    e.hand(e.publisher.use(TRAINED, 7), "slot 7 is zstd from here on")
    e.publish("packed with it", said="who left it open for an hour and closed again", n=4)
    e.publish("longer than a block can tell", said=" ".join([*SAID.decode().split() * 9, "and again"]), n=5)
    e.key_frames(5.0, "a round, and the binding in force behind it")
    e.publish("in force", said="somebody who left the door of the cold store closed", n=6)
    e.publisher.drop(7)
    e.publish("dropped", said="nobody who left the door of the cold store closed, then", n=7)
    return e


@example
def brief_dictionaries() -> Example:
    e = Example(
        "brief_dictionaries", "deflate with a preset dictionary, and without the bits that a reader can work out",
        [Property("payload", "opaque")], dictionaries=[BRIEF],
    )  # fmt: skip
    e.start()
    e.hand(e.publisher.use(BRIEF, 7), "slot 7")
    varied = b" ".join(b"%d" % (n * n * 7919 % 65537) for n in range(200))
    for payload in (SAID[:40], SAID[20:70] + b"again", b"who left the door of the cold store", varied):
        e.hand(e.publisher.send(payload, 0.0), "one block of the fixed code" if len(payload) < 200 else "another block")
    return e


@example
def stored_as_they_are() -> Example:
    e = Example(
        "stored_as_they_are", "what a dictionary does not shorten may still travel under its slot",
        [Property("payload", "opaque")], dictionaries=[PRESET, TRAINED],
    )  # fmt: skip
    e.start()
    for slot, dictionary, mark in ((1, PRESET, b"\x07"), (2, TRAINED, b"\x0d")):
        link = e.publisher.frame_encoder.stream
        e.hand([e.publisher.frame_encoder.frame(FrameKind.BINDING, Binding(slot, dictionary.hash, 0).encode())])
        raw, chain = seal(
            FrameKind.PAYLOAD, mark + b"as it is", sequence=link.cells[0], chain=link.cells[1], incarnation=1, slot=slot
        )
        link.cells[0], link.cells[1] = link.cells[0] + 1, chain
        e.hand([raw], f"slot {slot}")
    return e


@example
def payloads() -> Example:
    e = Example("payloads", "a topic without a schema", [Property("payload", "opaque")])
    e.start()
    for payload in (b"", b"\xff\x00 not a text", b"twice", b"twice", b"deflated " * 20):
        e.hand(e.publisher.send(payload, 0.0))
    e.key_frames(5.0, "how many there were, and nothing of what they said")
    e.publisher.send(b"lost", 5.0)
    e.hand(e.publisher.send(b"behind it", 5.0), "a gap")
    e.key_frames(10.0, "both are missed")
    e.hand(e.publisher.send(b"goes on", 10.0))
    return e
