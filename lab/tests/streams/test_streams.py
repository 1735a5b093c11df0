"""Streams are read lazily in their stored form; generated streams are reproducible."""

from __future__ import annotations

import gzip
from itertools import islice, pairwise
from pathlib import Path

import pytest

from thinwire.errors import MissingData, TooLarge
from thinwire_lab.reproduce.dictionaries.policy_cells import find_stream
from thinwire_lab.streams import generated_streams as stream_forms
from thinwire_lab.streams.generated_streams import _INTEGERS, _TEXTS, as_protobuf, drifting
from thinwire_lab.streams.named_streams import NamedStream, generated, lineitems, streams

SHARED = Path("../shared/data")
ROW = (
    b"07290D3599E7A0D62097A346EFCC1FB5,E7750A37CAB07D0DFF0AF7E3573AC141,2013-01-01 00:00:00,2013-01-01 00:02:00,120,"
    b"0.44,-73.956528,40.716976,-73.962440,40.715008,CSH,3.50,0.50,0.50,0.00,0.00,4.50"
)


def test_a_folder_of_files_is_a_folder_of_streams(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"one\r\ntwo\n\nthree")
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b'{"n":1}\n{"n":2}\n'))
    (tmp_path / "README.md").write_text("not a stream")
    first, second = streams(tmp_path)
    assert (first.name, second.name) == ("a", "b")
    assert list(first.messages()) == [b"one", b"two", b"three"]
    assert list(second.messages(1)) == [b'{"n":1}']
    assert list(second.messages()) == [b'{"n":1}', b'{"n":2}'], "every call starts over"


def test_files_with_a_common_name_keep_their_endings(tmp_path: Path) -> None:
    for name in ("a.log", "a.json", "b.json", "drift-json.txt"):
        (tmp_path / name).write_bytes(b"one\n")
    assert [stream.name for stream in streams(tmp_path)] == ["a.json", "a.log", "b", "drift-json"]
    assert list(find_stream("drift-json", str(tmp_path)).messages()) == [b"one"], (
        "a generated one does not take its place"
    )


def test_a_folder_without_streams_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=str(tmp_path)):
        streams(tmp_path)


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_forms, "MAX_LINE", 100)
    (tmp_path / "long.txt").write_bytes(b"x" * 1000)
    with pytest.raises(TooLarge, match="limit=100"):
        list(streams(tmp_path)[0].messages())


def test_known_recordings_become_the_messages_that_were_sent(tmp_path: Path) -> None:
    _write(tmp_path / "crypto-feed/COINBASE.ws.28.0.gz", b'wss://feed <-> 1.5\n1.6: {"type":"a: b"}\n')
    _write(tmp_path / "nyc-taxi/debs2015_sorted_data_10k.csv.gz", ROW + b"\n")
    _write(tmp_path / "market/us_equity_tick_trade_20131007.csv.gz", b"symbol,date,ms,price\nspy,1,20,3\naig,1,10,4\n")
    metric = "sensors-cloudmetrics/realAWSCloudwatch_ec2_cpu_utilization_%s.csv.gz"
    for machine in ("aa", "bb"):
        _write(tmp_path / (metric % machine), b"timestamp,value\n2014-02-14 14:30:00,0.1\n")
    found = {stream.name: list(stream.messages()) for stream in streams(tmp_path)}
    assert found["coinbase-json"] == [b'{"type":"a: b"}']
    assert found["debs-csv"] == [ROW]
    assert found["debs-json"][0].startswith(
        b'{"tip_amount": "0.00", "payment_type": "CSH", "dropoff_latitude": "40.715008"'
    )
    assert found["debs-pb"][0].startswith(b"\n\x2007290D35")
    assert found["debs-xml"][0].startswith(b"<trip><tip_amount>0.00</tip_amount>")
    assert [m[:15] for m in found["ticks-json"]] == [b'{"symbol":"aig"', b'{"symbol":"spy"']
    assert [m[-7:] for m in found["ec2-json"]] == [b': "aa"}', b': "bb"}']


def _write(file: Path, text: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(text))


@pytest.mark.parametrize("name", sorted(stream.name for stream in generated()))
def test_generated_streams_are_the_same_every_time(name: str) -> None:
    stream = NamedStream(name)
    assert list(stream.messages(20)) == list(stream.messages(20))
    assert len(set(stream.messages(20))) == 20


def test_generated_taxi_rows_are_as_long_as_the_real_ones() -> None:
    means = {s.name: sum(map(len, s.messages(300))) / 300 for s in generated()}
    assert means["taxi-csv"] == pytest.approx(190.9, rel=0.02)
    assert means["taxi-json"] == pytest.approx(529.9, rel=0.02)
    assert means["taxi-xml"] == pytest.approx(710.9, rel=0.02)
    assert means["taxi-pb"] == pytest.approx(174.96, rel=0.02)
    assert means["lineitem-tbl"] == pytest.approx(124.64, rel=0.03)


def test_protocol_buffers_are_what_the_library_reads() -> None:
    """The message of the original study, its fields as a description that the library makes a class of."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    kinds = {name: 9 if name in _TEXTS else 13 if name in _INTEGERS else 2 for name in stream_forms.TAXI_COLUMNS}
    file = descriptor_pb2.FileDescriptorProto(name="taxi.proto", package="taxi")
    fields = file.message_type.add(name="Taxitrip").field
    for number, (name, kind) in enumerate(kinds.items(), 1):
        fields.add(name=name, number=number, label=2, type=kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    trip = message_factory.GetMessageClass(pool.FindMessageTypeByName("taxi.Taxitrip")).FromString(as_protobuf(ROW))
    assert (trip.medallion, trip.trip_time_in_secs, trip.payment_type) == (
        "07290D3599E7A0D62097A346EFCC1FB5",
        120,
        "CSH",
    )
    assert trip.total_amount == pytest.approx(4.5)
    assert trip.SerializeToString() == as_protobuf(ROW)


def test_lines_of_orders_keep_the_rules_of_the_benchmark() -> None:
    rows = [row.decode().rstrip("|").split("|") for row in lineitems(2000)]
    assert {len(row) for row in rows} == {16}
    assert all(int(row[3]) == 1 or row[0] == before[0] for before, row in pairwise(rows)), "lines of an order in turn"
    assert all(row[12] > row[10] for row in rows), "received after shipped"
    assert all((row[8] == "N") == (row[12] > "1995-06-17") for row in rows)
    assert {int(row[0]) % 32 for row in rows} <= set(range(1, 9))


def test_drift_replaces_every_token_within_its_lifetime() -> None:
    messages = list(drifting(3000, life=1000, words=20))
    first, half, after = (_tokens(messages[at : at + 100]) for at in (0, 500, 1100))
    assert 0.3 < len(first & half) / len(first) < 0.7
    assert not first & after


def _tokens(messages: list[bytes]) -> set[bytes]:
    return {word for message in messages for word in message.split(b'"')[5::4]}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded streams are not on this machine")
def test_recorded_streams_have_messages() -> None:
    for stream in streams(SHARED):
        assert all(islice(stream.messages(), 3)), stream.name
