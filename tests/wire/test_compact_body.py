"""The compact format: writer and reader update the same state in the same way for any content."""

import copy

import pytest
from event_strategies import texts
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.errors import CorruptFrame
from thinwire.schema import Property, Schema
from thinwire.wire import EncodingKind, PartialEvent, StreamState
from thinwire.wire import compact_body as compact
from thinwire.wire.partial_event import indexes
from thinwire.wire.stream_state import FIRST, LAST_ALIAS

KINDS = {
    EncodingKind.FLAG: "boolean",
    EncodingKind.TICK: "integer",
    EncodingKind.FLOAT: "float",
    EncodingKind.GEO: "geo",
    EncodingKind.TEXT: "enum",
    EncodingKind.ARRAY: "array",
    EncodingKind.OPAQUE: "opaque",
}
residuals = st.integers(0, 40) | st.integers(0, 2**63 - 1)
positions = st.lists(st.integers(0, 300), min_size=1, max_size=4, unique=True).map(sorted)
patches = positions.flatmap(lambda found: st.tuples(*(st.tuples(st.just(at), residuals) for at in found)).map(list))
CODES = {
    EncodingKind.FLAG: st.none(),
    EncodingKind.TICK: residuals,
    EncodingKind.FLOAT: st.integers(1, 2**64 - 1),
    EncodingKind.GEO: st.tuples(residuals, residuals),
    EncodingKind.TEXT: st.sampled_from(["off", "on", "", "fault 7", "x" * 80, "é" * 2000]) | texts,
    EncodingKind.ARRAY: st.tuples(st.just(False), patches)
    | st.tuples(st.just(True), st.lists(st.integers(-(2**61), 2**61), max_size=4)),
    EncodingKind.OPAQUE: st.binary(max_size=9),
}
finite = st.floats(allow_nan=False, allow_infinity=False)
exacts = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts | finite


def schema_of(lanes):
    more = {EncodingKind.ARRAY: {"step": 1}, EncodingKind.TEXT: {"members": ("off", "on")}}
    return Schema("any", [Property(f"p{i}", KINDS[lane], **more.get(lane, {})) for i, lane in enumerate(lanes)])


def links_of(lanes, sources):
    schema = schema_of(lanes)
    pair = StreamState(schema), StreamState(schema)
    for link in pair:
        link.sources = sources
    return pair


def same(writer, reader):
    sent = [table and (table._ring, table._next, table._indexes) for table in writer.tables]
    received = [table and (table._ring, table._next, table._indexes) for table in reader.tables]
    return writer.cells == reader.cells and sent == received


@st.composite
def partials(draw, lanes, sources):
    mask = draw(st.integers(0, (1 << len(lanes)) - 1))
    exceptions = mask & draw(st.integers(0, (1 << len(lanes)) - 1)) if draw(st.booleans()) else 0
    codes = [draw(exacts if exceptions >> i & 1 else CODES[lanes[i]]) for i in indexes(mask)]
    return PartialEvent(draw(st.integers(0, sources - 1)), draw(st.integers(0, 70)), mask, exceptions, codes)


lane_sets = st.lists(st.sampled_from(EncodingKind), min_size=1, max_size=20)


@given(lane_sets, st.integers(1, 4), st.data())
@settings(max_examples=60)
def test_both_ends_have_the_same_state(lanes, sources, data):
    writer, reader = links_of(lanes, sources)
    for _ in range(data.draw(st.integers(1, 6))):
        partial = data.draw(partials(lanes, sources))
        body = compact.encode(partial, writer)
        assert compact.decode(body, bool(partial.exceptions), reader) == partial
        assert same(writer, reader)
        if data.draw(st.integers(0, 4)) == 0:
            _restart(writer, reader, sources)


def _restart(writer, reader, sources):
    levels = writer.level_bytes()
    for link in (writer, reader):
        link.restart(levels, sources)
    assert same(writer, reader)
    assert writer.level_bytes() == levels


@given(lane_sets, st.integers(1, 4), st.data())
@settings(max_examples=60)
def test_a_truncated_or_extended_body_is_rejected(lanes, sources, data):
    writer, reader = links_of(lanes, sources)
    partial = data.draw(partials(lanes, sources))
    body = compact.encode(partial, writer)
    for wrong in (body[:-1], body + b"\0"):
        with pytest.raises(CorruptFrame):
            compact.decode(wrong, bool(partial.exceptions), copy.deepcopy(reader))


@given(lane_sets, st.integers(1, 1_000), st.binary(max_size=60), st.booleans())
def test_any_bytes_are_a_partial_event_or_corrupt(lanes, sources, body, exceptional):
    reader = links_of(lanes, sources)[1]
    try:
        partial = compact.decode(body, exceptional, reader)
    except CorruptFrame:
        return
    assert 0 <= partial.source < sources
    assert len(partial.codes) == partial.mask.bit_count()


def test_a_single_source_costs_no_alias_and_a_run_of_sources_one_bit():
    writer, reader = links_of([EncodingKind.FLAG], sources=1)
    assert compact.encode(PartialEvent(0, 0, 1, 0, [None]), writer) == bytes((0b1_1_000000,))
    writer, reader = links_of([EncodingKind.FLAG], sources=3)
    bodies = [compact.encode(PartialEvent(alias, 0, 1, 0, [None]), writer) for alias in (1, 2)]
    assert bodies == [bytes((0b1_1_1_00000,))] * 2
    assert [compact.decode(body, False, reader).source for body in bodies] == [1, 2]
    assert writer.cells[LAST_ALIAS] == 2


def test_codes_are_written_in_the_width_of_their_field():
    writer, _ = links_of([EncodingKind.TICK], sources=1)
    sizes = [len(compact.encode(PartialEvent(0, 0, 1, 0, [1_000]), writer)) for _ in range(100)]
    assert (sizes[0], sizes[-1]) == (3, 2)
    assert writer.cells[FIRST] in range(16 * 990, 16 * 1_000 + 1)


def test_a_text_sent_twice_in_full_is_rejected():
    writer, reader = links_of([EncodingKind.TEXT], sources=1)
    sent = PartialEvent(0, 0, 1, 0, ["a fault"])
    first, second = (compact.encode(sent, writer) for _ in range(2))
    assert b"a fault" in first
    assert len(second) == 1
    assert compact.decode(first, False, reader) == compact.decode(second, False, reader) == sent
    _, reader = links_of([EncodingKind.TEXT], sources=1)
    compact.decode(first, False, reader)
    reader.cells[FIRST] = 0
    with pytest.raises(CorruptFrame, match="sent again"):
        compact.decode(first, False, reader)


@pytest.mark.parametrize("bit", range(6))
def test_nonzero_padding_is_rejected(bit):
    with pytest.raises(CorruptFrame, match="padding"):
        compact.decode(bytes((0b1_1_000000 | 1 << bit,)), False, links_of([EncodingKind.FLAG], sources=1)[1])


def test_an_alias_without_a_source_is_rejected():
    writer, reader = links_of([EncodingKind.FLAG], sources=5)
    reader.sources = 4
    with pytest.raises(CorruptFrame, match="alias") as caught:
        compact.decode(compact.encode(PartialEvent(4, 0, 1, 0, [None]), writer), False, reader)
    assert (caught.value.alias, caught.value.sources) == (4, 4)


@pytest.mark.parametrize("levels", [b"", bytes(2), bytes(4), bytes((0, 0, 90))])
def test_scales_of_another_schema_or_above_their_limit_are_rejected(levels):
    _, reader = links_of([EncodingKind.TICK], sources=1)
    with pytest.raises(CorruptFrame, match="scales"):
        reader.restart(levels, 1)
