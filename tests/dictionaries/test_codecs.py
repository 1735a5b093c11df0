"""What every codec promises; a codec enrols by a line in `CODECS`."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from functools import cache
from itertools import islice

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thinwire.dictionaries import Dictionary, codec_of, train
from thinwire.dictionaries.codecs import Codec, Deflate, PresetDeflate, Zstd
from thinwire.dictionaries.codecs.deflate import TrimmedDeflate
from thinwire.dictionaries.codecs.zstd import TrimmedZstd
from thinwire.errors import CorruptDictionary, CorruptFrame
from thinwire_lab.bench.codec_sizes import Gzip, Previous
from thinwire_lab.streams.named_streams import NamedStream

ROOMS = [
    b'{"sensor":"T%d","room":"11.%d","temperature":%d.%d,"ok":true}' % (n % 17, n % 13, 15 + n * 7 % 11, n * 3 % 10)
    for n in range(1200)
]
LIMIT = 1 << 20


LINES = [b"%d GET /%d/index.html 200 %d" % (n, n % 31, n * 17 % 4001) for n in range(1200)]
TRADES = [b"AAPL;%d;%d.%02d;NASDAQ" % (n, 90 + n % 7, n * 13 % 100) for n in range(1200)]
STREAMS = {"rooms": ROOMS, "lines": LINES, "trades": TRADES}


@cache
def _trained(codec: str, level: int, stream: str = "rooms", size: int = 2048) -> Dictionary:
    trained = train(STREAMS[stream], size, codec=codec, level=level)
    assert trained is not None
    return trained


CODECS: dict[str, Callable[[], Codec]] = {
    "brief raw preset": lambda: TrimmedDeflate(b"".join(ROOMS[:20])),
    "brief trained": lambda: codec_of(_trained("brief", 9)),
    "dense raw content": lambda: TrimmedZstd(b"".join(ROOMS[:20]), 9, 100),
    "dense trained": lambda: codec_of(_trained("dense", 12)),
    "deflate": lambda: Deflate(6),
    "gzip": lambda: Gzip(6),
    "previous": lambda: Previous(3),
    "zlib preset": lambda: codec_of(_trained("zlib", 9)),
    "zlib raw preset": lambda: PresetDeflate(b"".join(ROOMS[:20])),
    "zstd": lambda: Zstd(b"", 3, 1000),
    "zstd raw content": lambda: Zstd(b"".join(ROOMS[:20]), 3, 100),
    "zstd trained 1": lambda: codec_of(_trained("zstd", 1)),
    "zstd trained 19": lambda: codec_of(_trained("zstd", 19)),
    "zstd trained 3": lambda: codec_of(_trained("zstd", 3)),
}
EDGES = {
    "one byte": b"x",
    "the byte of a mark": b"\x0d",
    "two marks": b"\x1d\x07",
    "not text": bytes(range(256)) + b"\xff\xfe\x80",
    "the beginning of a dictionary": b"\x37\xa4\x30\xec" + bytes(range(200)),
    "zeros": bytes(5000),
    "equal, more than 4095": b"a" * 5000 + b"0123456789" * 3 + b"b" * 4500,
    "a room": ROOMS[700],
    "an unseen shape": b'{"device":"Z9","humidity":43.25}',
    "two blocks of deflate": b"".join(b"%d %x;" % (n * n % 7919, n * n * n) for n in range(6_000)),
    "several blocks": b"".join(b"%d," % (n * n) for n in range(25_000)),
    "just over a block": b"".join(ROOMS)[:65] * 2017,
}

every_codec = pytest.mark.parametrize("make", [pytest.param(CODECS[name], id=name) for name in sorted(CODECS)])
every_edge = pytest.mark.parametrize("message", [pytest.param(EDGES[name], id=name) for name in sorted(EDGES)])


@every_codec
@every_edge
def test_a_message_comes_back_and_costs_at_most_one_byte_more(make: Callable[[], Codec], message: bytes) -> None:
    ours, theirs = make(), make()
    packed = ours.pack(message)
    assert len(packed) <= len(message) + 1
    assert theirs.unpack(packed, len(message)) == message


@every_codec
def test_nothing_stays_nothing(make: Callable[[], Codec]) -> None:
    assert make().pack(b"") == b""
    assert make().unpack(b"", 0) == b""


@every_codec
def test_a_stream_comes_back_in_order(make: Callable[[], Codec]) -> None:
    ours, theirs = make(), make()
    stream = [*ROOMS[:200], *EDGES.values(), *ROOMS[:20]]
    assert [theirs.unpack(ours.pack(message), LIMIT) for message in stream] == stream


def test_a_dictionary_with_broken_tables_is_reported() -> None:
    codec = Zstd(b"\x37\xa4\x30\xec" + bytes(range(200)), 3, 100)
    with pytest.raises(CorruptDictionary):
        codec.pack(ROOMS[0])
    with pytest.raises(CorruptFrame):
        codec.unpack(b"anything", 100)


@pytest.mark.slow
@every_codec
def test_ten_megabytes(make: Callable[[], Codec]) -> None:
    message = (b"".join(ROOMS) + bytes(range(256))) * 160
    message = message[: 10 << 20]
    packed = make().pack(message)
    assert len(packed) < len(message)
    assert make().unpack(packed, 10 << 20) == message


@every_codec
@given(messages=st.lists(st.binary(max_size=400), min_size=1, max_size=4))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes_come_back(make: Callable[[], Codec], messages: list[bytes]) -> None:
    ours, theirs = make(), make()
    for message in messages:
        packed = ours.pack(message)
        assert len(packed) <= len(message) + 1
        assert theirs.unpack(packed, max(map(len, messages))) == message


@every_codec
@pytest.mark.parametrize("name", sorted({"a room", "several blocks", "zeros", "not text"}))
def test_one_byte_above_the_limit_is_refused(make: Callable[[], Codec], name: str) -> None:
    packed = make().pack(EDGES[name])
    for limit in (len(EDGES[name]) - 1, 1, 0):
        with pytest.raises(CorruptFrame):
            make().unpack(packed, limit)


@every_codec
def test_what_is_cut_off_is_refused_or_wrong_but_never_an_accident(make: Callable[[], Codec]) -> None:
    """Raw formats carry no checksum, so a cut may go unnoticed here; the frame around it has one."""
    packed = make().pack(ROOMS[700])
    for length in range(1, len(packed)):
        _named_or_bounded(make(), packed[:length])


@every_codec
@given(garbage=st.binary(min_size=1, max_size=200))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_garbage_is_refused_by_name_or_stays_within_the_limit(make: Callable[[], Codec], garbage: bytes) -> None:
    _named_or_bounded(make(), garbage)


@every_codec
@given(position=st.integers(0, 10_000), bits=st.integers(1, 255))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_flipped_bit_is_refused_by_name_or_stays_within_the_limit(
    make: Callable[[], Codec], position: int, bits: int
) -> None:
    packed = bytearray(make().pack(ROOMS[700]))
    packed[position % len(packed)] ^= bits
    _named_or_bounded(make(), bytes(packed))


def _named_or_bounded(codec: Codec, packed: bytes, limit: int = 1000) -> None:
    try:
        assert len(codec.unpack(packed, limit)) <= limit
    except CorruptFrame as error:
        assert "limit" in error.facts or "mark" in error.facts  # noqa: PT017


@cache
def _bombs() -> dict[str, bytes]:
    """Megabytes in a few bytes, as each format would carry them."""
    magicless = zstandard.ZstdCompressionParameters(
        format=zstandard.FORMAT_ZSTD1_MAGICLESS, write_content_size=False, window_log=20
    )
    announced = zstandard.ZstdCompressionParameters(format=zstandard.FORMAT_ZSTD1_MAGICLESS, write_content_size=True)
    wide = b"\x00" + bytes((31 - 10 << 3,)) + (1 << 3 | 1).to_bytes(3, "little") + b"\x00"
    zeros = bytes(3 << 20)
    return {
        "deflate": zlib.compress(zeros, 9, wbits=-15),
        "gzip": gzip.compress(zeros, 6),
        "zstd": b"\x1d" + zstandard.ZstdCompressor(compression_params=magicless).compress(zeros),
        "zstd that announces its size": b"\x1d"
        + zstandard.ZstdCompressor(compression_params=announced).compress(zeros),
        "zstd that announces 2^60 bytes, descriptor cut off": b"\x1d"
        + (1 << 60).to_bytes(8, "little")
        + b"\x01\x00\x00",
        "zstd that announces 2^60 bytes": b"\x1d\xe0" + (1 << 60).to_bytes(8, "little") + b"\x01\x00\x00",
        "zstd with a window of 2 GB": b"\x1d" + wide,
    }


@every_codec
@pytest.mark.parametrize("bomb", sorted(_bombs()))
def test_a_bomb_takes_no_more_memory_than_the_limit_allows(make: Callable[[], Codec], bomb: str) -> None:
    codec, packed = make(), _bombs()[bomb]
    codec.unpack(make().pack(ROOMS[0]), 1000)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFrame):
            codec.unpack(packed, 10_000)
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


def test_the_usual_message_travels_without_any_byte_of_framing() -> None:
    """Five bytes less than the shortest frame that zstd itself writes."""
    trained = _trained("zstd", 3)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        3, source_size=trained.largest, dict_size=len(trained.content), format=zstandard.FORMAT_ZSTD1_MAGICLESS,
        write_content_size=False, write_checksum=False, write_dict_id=False,
    )  # fmt: skip
    shared = zstandard.ZstdCompressionDict(trained.content)
    stock = zstandard.ZstdCompressor(dict_data=shared, compression_params=parameters)
    codec = codec_of(trained)
    assert all(len(codec.pack(message)) == len(stock.compress(message)) - 5 for message in ROOMS)


def test_dense_leaves_out_one_byte_more() -> None:
    trips = list(islice(NamedStream("taxi-json").messages(), 900))
    trained = train(trips[:600], 4096, codec="dense", level=12)
    assert trained is not None
    dense, plain = codec_of(trained), Zstd(trained.content, 12, trained.largest)
    saved = [len(plain.pack(trip)) - len(dense.pack(trip)) for trip in trips]
    assert set(saved) <= {-1, 0, 1}
    assert sum(saved) > 0.8 * len(saved)
    assert [dense.unpack(dense.pack(trip), 1000) for trip in trips] == trips


def test_brief_leaves_out_about_nine_bits() -> None:
    trained = _trained("brief", 9)
    brief, plain = codec_of(trained), PresetDeflate(trained.content, 9)
    saved = [len(plain.pack(room)) - len(brief.pack(room)) for room in ROOMS]
    assert set(saved) <= {0, 1, 2}
    assert sum(saved) > len(saved)


def test_a_wrong_dictionary_never_has_the_same_name_and_is_not_always_noticed_by_the_codec() -> None:
    """Reasons the log binds a slot to a hash: the codec alone would let some wrong messages pass."""
    trained = [
        _trained(codec, 3, stream, size)
        for stream in STREAMS
        for codec in ("zstd", "zlib", "brief")
        for size in (512, 1024)
    ]
    assert len({one.hash for one in trained}) == len(trained)
    wrong = passed = 0
    for written in trained:
        packed = [codec_of(written).pack(message) for message in ROOMS[:40]]
        for read in trained:
            if read.hash != written.hash:
                codec = codec_of(read)
                outcomes = [_passes(codec, one, message) for one, message in zip(packed, ROOMS, strict=False)]
                wrong, passed = wrong + len(outcomes), passed + sum(outcomes)
    assert wrong == len(trained) * (len(trained) - 1) * 40
    assert 0 < passed < wrong / 2, f"{passed} of {wrong} messages passed with a wrong dictionary"


def _passes(codec: Codec, packed: bytes, message: bytes) -> bool:
    try:
        return codec.unpack(packed, LIMIT) != message
    except CorruptFrame:
        return False
