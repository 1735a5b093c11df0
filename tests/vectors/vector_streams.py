"""Examples of streams: sources, messages, losses, restarts, schema versions."""

from __future__ import annotations

from vector_recording import QUIET, ROOM, Example, example, temperature

from thinwire.codec import Demand, StreamConfig
from thinwire.schema import Property
from thinwire.wire import FrameKind, KeyFrame, Request, join, read, seal


@example
def sources() -> Example:
    e = Example("sources", "aliases, skips, silences in a heartbeat, a key frame of all", [ROOM, temperature()])
    e.start()
    for k, room in enumerate("abcde"):
        e.publish(room=room, t=20.0 + k)
    for room, t in zip("abceaddd", (21.0, 22.0, 23.0, 21.0, 22.0, 23.0, 23.0, 9.0), strict=True):
        e.publish(room=room, t=t)
    for room in "abbcc":
        e.publish("silent", room=room, t={"a": 22.0, "b": 22.0, "c": 23.0}[room])
    e.heartbeat(1.5, "runs of sources")
    e.publish(room="e", t=21.0)
    e.key_frames(5.0, "silent events up to the ordinal told")
    e.publish(room="e", t=20.0)
    e.publish(room="a", t=20.0)
    return e


@example
def scales() -> Example:
    e = Example("scales", "codes at the edge of a scale: another rounding reads other bits", [ROOM, temperature()])
    e.start()
    tenths = 0
    for steps, note in [([2] * 45, "a steady code"), ([-5], "to the edge"), ([4, 4, -60, 1000, 1, 1, 1], "beyond it")]:
        frames = []
        for step in steps:
            tenths += step
            frames += e.frames(t=tenths / 10)
        e.hand([join(frames)], note)
    e.key_frames(5.0, "the scales in one byte each")
    e.publish(t=0.0)
    return e


@example
def wide() -> Example:
    e = Example("wide", "sequences of 16 bits", [ROOM, temperature()], wide=True)
    e.start()
    for t in (20.0, 20.1, 20.3):
        e.publish(t=t)
    e.heartbeat(1.0)
    return e


@example
def batches() -> Example:
    e = Example("batches", "several frames in one message", [ROOM, temperature()])
    e.hand([join([*e.publisher.start(0.0), *e.frames(t=20.0)])])
    e.hand([join([f for k in range(5) for f in e.frames(t=20.0 + k)])])
    e.hand([join(e.frames(t=7.0))], "a batch of one is the frame")
    e.hand([b"\x09"], "an empty batch")
    return e


@example
def packed() -> Example:
    e = Example("packed", "deflated introductions and key frames", [ROOM, Property("s", "string")])
    e.start()
    e.publish(room="a" * 60, s="long and dull " * 8)
    e.publish(room="b" * 60, s="long and dull " * 8)
    e.publish(room="b" * 60, s="short")
    e.key_frames(5.0)
    e.publish(room="a" * 60, s="short")
    return e


@example
def chunks() -> Example:
    e = Example("chunks", "a round of key frames in three chunks", [ROOM, temperature()])
    e.publisher.start(0.0)
    for k in range(4):
        e.frames(room=f"{k}", t=20.0 + k)
    complete = KeyFrame.decode(read(e.publisher.answer(Request(0, 0), 5.0)[0]).body)
    cells = e.publisher.frame_encoder.stream.cells
    cells[0] = complete.sequence
    for part, (first, end) in enumerate([(2, 3), (0, 2), (3, 4)]):
        key = complete._replace(sequence=cells[0], first=first, sources=complete.sources[first:end])
        raw, chain = seal(FrameKind.KEY, key.encode(), sequence=key.sequence, chain=0, incarnation=1)
        e.hand([raw], f"sources {first} to {end - 1}")
        cells[0], cells[1], cells[3] = key.sequence + 1, chain, 0
        if part < 2:
            e.publish("of a source that is known" if part else "of a source not known yet", room="0", t=30.0 + part)
            e.heartbeat(1.0, "no watermark while a source is unknown")
            complete = _with_source(complete, e)
    e.publish("complete", room="3", t=9.0)
    e.heartbeat(2.0)
    return e


def _with_source(complete: KeyFrame, e: Example) -> KeyFrame:
    """Return the key frame with the current state and scales."""
    states = tuple(e.publisher.reducer.source_state(row) for row in range(len(complete.sources)))
    levels = e.publisher.frame_encoder.stream.level_bytes()
    e.publisher.frame_encoder.stream.restart(levels, complete.total_sources)
    return complete._replace(sources=states, scales=levels)


@example
def restart() -> Example:
    e = Example("restart", "another life of the publisher, with and without its key frame", [ROOM, temperature()])
    e.start()
    e.publish(t=20.0)
    e.publish(t=21.0)
    e.publisher = e.new_publisher(2)
    e.start("incarnation 2")
    e.publish(t=22.0)
    e.publish(t=23.0)
    e.publisher = e.new_publisher(3)
    e.publisher.start(0.0)
    e.publish("incarnation 3, its key frame lost", t=24.0)
    e.key_frames(5.0, "found again")
    e.publish(t=25.0)
    return e


@example
def late_joiner() -> Example:
    demand = {"predictor": "trend"}
    e = Example("late_joiner", "a reader that starts at a key frame", [ROOM, temperature()], demand=demand)
    e.publisher.start(0.0)
    for room, t in zip("abbcddd", (20.0, 20.1, 20.3, 20.04, 20.0, 22.0, None), strict=True):
        e.frames(room=room, t=t)
    e.key_frames(5.0, "c was off the grid: the state is only near to it, and no bound is claimed")
    e.publish(room="c", t=20.0)
    e.publish(room="c", t=20.1)
    e.key_frames(10.0, "the same state at both ends")
    e.publish(room="b", t=20.5)
    e.publish(room="d", t=20.0)
    e.key_frames(15.0)
    return e


@example
def losses() -> Example:
    e = Example(
        "losses", "a lost frame, a duplicate, an altered frame, a late joiner's wait", [ROOM, temperature()],
        needs=["duplicates"],
    )  # fmt: skip
    e.hand(e.frames(t=19.0), "before any key frame")
    e.key_frames(5.0)
    first = e.frames(t=20.0)
    e.hand(first)
    e.hand(first, "again: dropped")
    e.frames(t=21.0)
    e.publish("one was lost", t=22.0)
    e.publish("waiting", t=23.0)
    e.key_frames(10.0, "resumed: what was missed, then where it stands")
    e.publish(t=24.0)
    e.hand([bytes((*frame[:-1], frame[-1] ^ 8)) for frame in e.frames(t=25.0)], "altered")
    e.key_frames(15.0)
    e.hand([b"", b"\x01", b"\x09\x05\x01"], "no frame, half a header, half a batch")
    e.key_frames(20.0)
    e.publish(t=26.0)
    return e


@example
def positions_of_messages() -> Example:
    e = Example("message_positions", "the transport's own numbers", [ROOM, temperature()], needs=["positions"])
    e.hand(e.publisher.start(0.0), position=7)
    e.hand([join(e.frames(t=20.0))], position=8)
    e.hand(e.frames(t=21.0), position=9)
    e.hand(e.frames(t=22.0), "a redelivery by its number", position=9)
    e.hand(e.frames(t=23.0), "a jump", position=12)
    e.hand(e.publisher.answer(Request(0, 0), 5.0), position=13)
    return e


@example
def unknown_kind() -> Example:
    e = Example("unknown_kind", "a kind of a later day takes its number and nothing else", [ROOM, temperature()])
    e.start()
    e.publish(t=20.0)
    for kind in (0, 11, 15):
        raw = e.publisher.frame_encoder.frame(kind, b"of a later day")  # type: ignore[arg-type]
        e.hand([raw], f"kind {kind}")
    e.publish(t=21.0)
    return e


@example
def refusals() -> Example:
    e = Example("refusals", "another version, another schema, a dictionary", [ROOM, temperature()], needs=["refusals"])
    key = KeyFrame.decode(read(e.publisher.start(0.0)[0]).body)
    e.hand([seal(FrameKind.KEY, b"\x02" + key.encode()[1:], sequence=0, chain=0, incarnation=1)[0]], "version 2")
    other = key._replace(fingerprint=bytes(8)).encode()
    e.hand([seal(FrameKind.KEY, other, sequence=0, chain=0, incarnation=1)[0]], "a schema nobody knows")
    e.hand([seal(FrameKind.KEY, key.encode(), sequence=0, chain=0, incarnation=1, slot=7)[0]], "slot 7")
    e.hand([seal(FrameKind.KEY, key.encode(), sequence=0, chain=0, incarnation=1)[0]], "at last")
    return e


@example
def reconfiguration() -> Example:
    e = Example(
        "reconfiguration", "another configuration without a gap", [ROOM, temperature()],
        demand={"predictor": "linear", "tolerance": {"t": 1}},
    )  # fmt: skip
    e.start()
    for t in (20.0, 20.4, 20.8, 21.2, 23.0):
        e.publish(t=t)
    stricter = StreamConfig(version=2, demand=Demand(predictor="trend", tolerance={"t": 0.2}), **QUIET)
    e.hand(e.publisher.reconfigure(stricter, 1.0), "untold events, then the new configuration")
    for t in (23.4, 23.9, 24.3):
        e.publish(now=1.0, t=t)
    return e


@example
def upstream() -> Example:
    e = Example(
        "upstream", "rules over others: bounds add up, a source begins late, and a watermark of somebody else",
        [ROOM, temperature(maximum=50), Property("f", "float"), Property("on", "boolean")],
        over={"tolerance": {"t": 0.5, "f": 0.25}}, demand={"predictor": "last", "tolerance": {"t": 0.3, "f": 0.5}},
    )  # fmt: skip
    e.start()
    e.hand(e.explicit_frames(7, t=20.0, f=1.0, on=True), "the first event has number 7")
    e.hand(e.explicit_frames(8, t=20.3, f=1.5, on=True))
    e.hand(e.explicit_frames(9, t=20.4, f=1.5, on=True))
    e.hand(e.explicit_frames(10, t=50.2, f=1.5, on=True), "beyond the range, but the truth may not be: no exception")
    e.hand(e.explicit_frames(11, "t", t=50.3, f=1.5, on=True), "the truth is: told exactly, flagged")
    e.hand(e.explicit_frames(12, t=50.3, f=1.5, on=True))
    e.hand(e.publisher.heartbeat(9.0, watermark=4.5))
    e.hand(e.publisher.audit(("11.1",), {"t": 500, "f": 1.25, "on": True}), "an audit passed on")
    return e


@example
def audits() -> Example:
    e = Example(
        "audits", "AUDIT frames between others",
        [ROOM, temperature(), Property("on", "boolean"), Property("f", "float")],
        demand={"predictor": "last", "tolerance": {"t": 0.5, "f": 0.25}}, audit_every=2,
    )  # fmt: skip
    e.start()
    for t, f in [(20.0, 1.0), (20.3, 1.0), (20.4, 1.125), (20.4, 1.5), (21.0, 1.5)]:
        e.publish(t=t, on=True, f=f)
    return e
