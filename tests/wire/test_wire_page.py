"""The tables and numbers of docs/wire.md agree with the code."""

import re
from pathlib import Path

import pytest

from thinwire.codec.event_admission import MAX_KEY, MAX_OBJECTS
from thinwire.codec.frame_sequencer import DEDUP_FRAMES
from thinwire.codec.reducer import MAX_SOURCES
from thinwire.codec.source_table import MAX_COEFFICIENTS, MAX_TREND
from thinwire.codec.stream_encoder import MAX_PAYLOAD
from thinwire.codec.suppressed_runs import MAX_RUNS
from thinwire.codec.ticks import TICK_LIMIT
from thinwire.codec.value_conversion import MAX_TEXT
from thinwire.dictionaries.dictionary import MAX_CONTENT
from thinwire.dictionaries.dictionary import MAX_MESSAGE as MAX_LARGEST
from thinwire.schema import Kind
from thinwire.schema.property import MAX_ARRAY, MAX_MEMBERS, MAX_PERIOD
from thinwire.schema.schema import MAX_PROPERTIES
from thinwire.wire import WIRE_VERSION, FrameKind
from thinwire.wire import stream_state as scales
from thinwire.wire import stream_state as texts
from thinwire.wire.control_frames import MAX_SKIP, MAX_SUPPRESSED
from thinwire.wire.exact_value import MAX_EXACT
from thinwire.wire.frame import MAX_FRAME, MAX_FRAMES, MAX_MESSAGE
from thinwire.wire.key_frame import CHUNK_BYTES, MAX_PART, MAX_TOTAL_SOURCES
from thinwire.wire.partial_event import SLOTS, EncodingKind, encoding_kind_of

PAGE = (Path(__file__).parents[2] / "docs" / "wire.md").read_text("utf-8")


def rows(heading):
    """Return the cells of the first table after a heading or a text."""
    table = re.search(r"^\|.*?(?=\n\n|\Z)", PAGE[PAGE.index(heading) :], re.MULTILINE | re.DOTALL)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines()]
    return cells[2:]


LIMITS = {
    "frame, and body": [MAX_FRAME],
    "message": [MAX_MESSAGE, MAX_FRAMES],
    "rules, scales": [MAX_PART],
    "source states": [CHUNK_BYTES],
    "sources of a stream": [MAX_TOTAL_SOURCES, MAX_SOURCES],
    "dimension values": [MAX_KEY],
    "properties": [MAX_PROPERTIES],
    "suppressed events at once": [MAX_SKIP],
    "runs in one heartbeat": [MAX_RUNS],
    "suppressed events in one heartbeat": [MAX_SUPPRESSED],
    "ordinal, tick": [TICK_LIMIT],
    "coefficients": [MAX_COEFFICIENTS],
    "trend in a switch": [MAX_TREND],
    "level of a scale": [scales.MAX_LEVEL, scales.CEILING],
    "text table": [texts.CAPACITY, texts.LONGEST, MAX_MEMBERS],
    "text": [MAX_TEXT, MAX_EXACT],
    "opaque value": [MAX_EXACT],
    "texts, arrays and opaque": [MAX_OBJECTS],
    "array": [MAX_ARRAY],
    "season": [MAX_PERIOD],
    "payload": [MAX_PAYLOAD],
    "dictionary": [MAX_CONTENT, MAX_LARGEST],
    "frames remembered": [DEDUP_FRAMES],
}


@pytest.mark.parametrize("what", LIMITS)
def test_a_limit_is_the_one_in_the_code(what):
    documented = [limit for name, limit in rows("## Limits") if name == what] or [
        limit for name, limit in rows("## Limits") if name.startswith(what)
    ]
    assert documented, f"no limit for {what}"
    for number in LIMITS[what]:
        assert f"{number:,}" in documented[0] or f"2^{number.bit_length() - 1}" in documented[0]


def test_the_kinds_are_those_in_the_code():
    documented = {int(number): name for number, name, _ in rows("**Kinds.**")}
    assert documented == {int(kind): kind.name for kind in FrameKind}


def test_the_lanes_are_those_in_the_code():
    documented = rows("Each has one **encoding**")
    assert [name for name, *_ in documented] == [lane.name for lane in EncodingKind]
    for name, kinds, slots, _ in documented:
        assert {encoding_kind_of(Kind(kind)).name for kind in kinds.split(", ")} == {name}
        assert int(slots[0]) == SLOTS.get(EncodingKind[name], 0)


def test_the_version_is_that_in_the_code():
    assert f"| version | 1 | {WIRE_VERSION}." in PAGE
    assert (Path(__file__).parents[1] / "vectors" / f"v{WIRE_VERSION}").is_dir()
