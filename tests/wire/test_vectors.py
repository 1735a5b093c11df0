"""The wire examples: every decoder delivers the same events, however the frames are split into messages."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from independent_decoder import Decoder

from thinwire.codec import StreamDecoder
from thinwire.dictionaries import Dictionary
from thinwire.errors import CorruptFrame, PeerFault
from thinwire.schema import Schema
from thinwire.wire import FrameKind, join, read, split

VECTORS = Path(__file__).parents[1] / "vectors"
sys.path.append(str(VECTORS))

from make import files  # noqa: E402
from vector_recording import plain  # noqa: E402

FILES = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((VECTORS / "v1").glob("*.json"))}
FREE = [name for name, vector in FILES.items() if not {"positions", "refusals"} & set(vector["needs"])]
SHARED = [name for name, vector in FILES.items() if not vector["needs"]]


def subscriber(vector, compiled=False):
    dictionaries = [Dictionary.decode(bytes.fromhex(text)) for text in vector.get("dictionaries", ())]
    find_dictionary = {dictionary.hash: dictionary for dictionary in dictionaries}.get
    schema = Schema.from_document(vector["schema"])
    return StreamDecoder([schema], publisher="p", compiled=compiled, dictionaries=find_dictionary)


def read_step(reader, step):
    try:
        message, position = bytes.fromhex(step["message"]), step.get("position")
        return {"deliveries": [plain(d) for d in reader.receive(message, now=0.0, position=position)]}
    except PeerFault as problem:
        return {"raises": type(problem).__name__}


def all_deliveries(vector):
    return [delivery for step in vector["steps"] for delivery in step["deliveries"]]


def all_frames(vector):
    """Return the frames of a vector that fit into a batch; a broken message does not."""
    frames = []
    for step in vector["steps"]:
        try:
            frames += split(bytes.fromhex(step["message"]))
        except CorruptFrame:
            frames.append(None)
    return frames


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_a_decoder_delivers_the_events_of_the_file(name, compiled):
    reader = subscriber(FILES[name], compiled)
    for number, step in enumerate(FILES[name]["steps"]):
        expected = {key: step[key] for key in ("deliveries", "raises") if key in step}
        assert read_step(reader, step) == expected, f"step {number}: {step.get('note')}"


@pytest.mark.parametrize("name", SHARED)
def test_the_independent_decoder_sees_the_same_events(name):
    dictionaries = [bytes.fromhex(text) for text in FILES[name].get("dictionaries", ())]
    decoder = Decoder(FILES[name]["schema"], dictionaries)
    for number, step in enumerate(FILES[name]["steps"]):
        expected = [_as_decoded(d) for d in step["deliveries"] if "event" in d or "watermark" in d]
        assert decoder.receive(bytes.fromhex(step["message"])) == expected, f"step {number}: {step.get('note')}"


def _as_decoded(delivery):
    if "watermark" in delivery:
        return ("watermark", delivery["watermark"])
    values = {
        name: bytes.fromhex(value["$hex"]) if isinstance(value, dict) else value
        for name, value in delivery["event"].items()
    }
    return ("event", values, delivery["source"], delivery["ordinal"], delivery["virtual"])


@pytest.mark.parametrize("name", FREE)
@given(data=st.data())
@settings(max_examples=5)
def test_any_split_into_messages_gives_the_same_events(name, data):
    frames = all_frames(FILES[name])
    reader, out = subscriber(FILES[name]), []
    while frames:
        count = data.draw(st.integers(1, len(frames)))
        group, frames = frames[:count], frames[count:]
        for message in _messages(group):
            out += (plain(d) for d in reader.receive(message, now=0.0))
    assert out == all_deliveries(FILES[name])


def _messages(group):
    """Return one batch of the group, split at broken messages and empty frames, which do not fit into a batch."""
    batch = []
    for frame in group:
        if frame:
            batch.append(frame)
        else:
            yield join(batch)
            batch = []
            yield b"\x09\x05\x01" if frame is None else frame
    yield join(batch)


def test_the_files_are_what_the_library_makes():
    made = files()
    assert sorted(made) == sorted(path.name for path in (VECTORS / "v1").iterdir())
    for name, text in made.items():
        assert (VECTORS / "v1" / name).read_text("utf-8") == text, f"{name} differs: run tests/vectors/make.py"


def test_every_kind_is_in_the_files():
    kinds = {read(frame).kind for vector in FILES.values() for frame in _readable(vector)}
    assert set(FrameKind) - {FrameKind.BATCH, FrameKind.REQUEST} <= kinds
    assert {0, 11, 15} <= kinds
    assert any(bytes.fromhex(step["message"])[:1] == b"\x09" for v in FILES.values() for step in v["steps"])


def _readable(vector):
    if "refusals" in vector["needs"]:
        return []
    return [frame for frame in all_frames(vector) if frame is not None and len(frame) > 3]


def test_the_independent_decoder_does_not_import_the_library():
    text = (Path(__file__).parent / "independent_decoder.py").read_text()
    imported = {line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import", "from"))}
    assert imported <= {*sys.stdlib_module_names, "zstandard"}
