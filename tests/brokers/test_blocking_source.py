"""Reading ranges of a log without an event loop gives the same result as the asyncio broker."""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence

import pytest
from fault_proxy import FaultProxy

pytest.importorskip("nats")

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats.blocking import log_range, open_source
from thinwire.brokers.nats.blocking.nats_log_source import NatsSource
from thinwire.brokers.nats.broker import NatsBroker, connect
from thinwire.brokers.protocol import Retention, StoredMessage
from thinwire.errors import BadSubject, BrokerUnavailable, ThinwireError, TransportClosed, UnknownLog

LOG = "tw_log_rooms"
SUBJECTS = ["tw.log.rooms.*.*"]
EVERYTHING = 10**15


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as running:
        yield running


@pytest.fixture
def source(server: EmbeddedServer) -> Iterator[NatsSource]:
    with open_source(server.url, timeout=20) as opened:
        yield opened


async def _fresh(broker: NatsBroker, retention: Retention | None = None) -> None:
    await broker.delete_log(LOG)
    await broker.ensure_log(LOG, SUBJECTS, retention)


def _fill(server: EmbeddedServer, payloads: Sequence[bytes], retention: Retention | None = None) -> None:
    """Create a log with these messages, from three publishers in turn."""

    async def fill() -> None:
        async with asyncio.timeout(60), await connect(server.url) as broker:
            await _fresh(broker, retention)
            for number, payload in enumerate(payloads):
                await broker.append(LOG, f"tw.log.rooms.p{number % 3}.d", payload)

    asyncio.run(fill())


def _delete(server: EmbeddedServer, *offsets: int) -> None:
    async def delete() -> None:
        async with asyncio.timeout(30), await connect(server.url) as broker:
            for offset in offsets:
                connection = broker._connection
                await connection.call_api(f"STREAM.MSG.DELETE.{LOG}", {"seq": offset}, deadline=connection.deadline())

    asyncio.run(delete())


def _delete_log(server: EmbeddedServer) -> None:
    async def delete() -> None:
        async with asyncio.timeout(30), await connect(server.url) as broker:
            await broker.delete_log(LOG)

    asyncio.run(delete())


def _awaited(server: EmbeddedServer, count: int, first: int = 1, subjects: Sequence[str] = ()) -> list[StoredMessage]:
    """The same, read with the asyncio broker."""

    async def read() -> list[StoredMessage]:
        found = []
        async with asyncio.timeout(30), await connect(server.url) as broker:
            reader = await broker.read(LOG, first=first, subjects=subjects)
            while len(found) < count:
                message = await reader.next(10)
                assert message is not None
                found.append(message)
                reader.done(message.offset)
            await reader.close()
        return found

    return asyncio.run(read())


def _all(
    source: NatsSource, first: int = 1, last: int = EVERYTHING, subjects: Sequence[str] = ()
) -> list[StoredMessage]:
    return [message for block in source.read(LOG, first, last, subjects=subjects) for message in block]


def test_content_equals_that_of_the_asyncio_reader(server: EmbeddedServer, source: NatsSource) -> None:
    _fill(server, [os.urandom(number * 7 % 500) for number in range(400)] + [b"", b"\r\n", b"MSG a 1 2\r\n\r\n"])
    wanted = _awaited(server, 403)
    assert _all(source) == wanted
    assert _all(source, 17, 17) == wanted[16:17]
    assert _all(source, 390, 500) == wanted[389:]
    assert _all(source, -5, 3) == wanted[:3]
    assert _all(source, 5, 4) == _all(source, 404) == []
    some = ["tw.log.rooms.p1.d", "tw.log.rooms.p2.*"]
    assert _all(source, 10, 300, some) == [m for m in _awaited(server, 200, 10, some) if m.offset <= 300]
    assert _all(source, subjects=["tw.log.rooms.unused.d"]) == []
    assert _all(source, 1, 2, ["tw.log.rooms.p2.d"]) == []


def test_blocks_equal_messages(server: EmbeddedServer, source: NatsSource) -> None:
    _fill(server, [b"%d" % number for number in range(50)])
    blocks = list(source.read_blocks(LOG, 3, 40))
    columns = [
        list(zip(*(block.offsets.tolist(), block.subjects, block.payloads, block.times.tolist()), strict=True))
        for block in blocks
    ]
    assert [StoredMessage(*row) for rows in columns for row in rows] == _all(source, 3, 40)


def test_messages_with_headers(server: EmbeddedServer, source: NatsSource) -> None:
    async def fill() -> None:
        async with asyncio.timeout(30), await connect(server.url) as broker:
            await _fresh(broker)
            for number in range(20):
                await broker.append(LOG, "tw.log.rooms.p1.d", b"%d" % number, expected_last=number)

    asyncio.run(fill())
    assert _all(source) == _awaited(server, 20)


def test_queries_equal_those_of_the_asyncio_broker(server: EmbeddedServer, source: NatsSource) -> None:
    _fill(server, [b"%d" % number for number in range(30)])
    times = [message.time for message in _all(source)]

    async def compare() -> None:
        async with asyncio.timeout(30), await connect(server.url) as broker:
            assert source.logs() == await broker.logs()
            assert source.span(LOG) == await broker.span(LOG)
            for pattern in (">", "tw.log.rooms.p1.d", "tw.log.*.p2.*", "unused"):
                assert source.subjects(LOG, pattern) == await broker.subjects(LOG, pattern)
                for up_to in (None, 0, 1, 17, 99):
                    assert source.last(LOG, pattern, up_to=up_to) == await broker.last(LOG, pattern, up_to=up_to)
            for moment in (0.0, times[0], times[15], times[15] + 1e-6, times[-1] + 1):
                assert source.offset_at(LOG, moment) == await broker.offset_at(LOG, moment)

    asyncio.run(compare())


def test_removed_messages_are_a_gap(server: EmbeddedServer, source: NatsSource) -> None:
    _fill(server, [b"%d" % number for number in range(120)], Retention(max_messages=50))
    assert [message.offset for message in _all(source, 1, 80)] == list(range(71, 81))
    assert _all(source, 1, 70) == []
    _delete(server, 75, 76, 119, 120)
    assert [message.offset for message in _all(source)] == [*range(71, 75), *range(77, 119)]
    assert [message.offset for message in _all(source, 75, 76)] == []
    assert [message.offset for message in _all(source, 74, 77)] == [74, 77]


def test_empty_and_missing_log(server: EmbeddedServer, source: NatsSource) -> None:
    _fill(server, [])
    assert _all(source) == []
    assert source.span(LOG).last == 0
    _fill(server, [b"1", b"2"])
    _delete(server, 1, 2)
    assert _all(source) == []
    for question in (lambda: _all_of(source, "tw_none"), lambda: source.span("tw_none")):
        with pytest.raises(UnknownLog):
            question()
    for wrong in ("a b", "a.b", "*"):
        with pytest.raises(BadSubject):
            _all_of(source, wrong)
    with pytest.raises(BadSubject):
        _all(source, subjects=["a..b"])


def _all_of(source: NatsSource, log: str) -> list[list[StoredMessage]]:
    return list(source.read(log, 1, EVERYTHING))


def test_large_and_small_messages() -> None:
    with EmbeddedServer(lines=["max_payload: 8MB"]) as large:
        payloads = [os.urandom(size) for size in (10, 7 << 20, 0, 3 << 20, 3 << 20, 1 << 20, 5, 6 << 20)]
        _fill(large, payloads)
        with open_source(large.url, timeout=20) as source:
            blocks = list(source.read(LOG, 1, EVERYTHING))
            assert [message.payload for block in blocks for message in block] == payloads
            assert len(blocks) > 2  # a block does not grow without bound


def test_thousands_of_subjects(server: EmbeddedServer, source: NatsSource) -> None:
    async def fill() -> None:
        async with asyncio.timeout(60), await connect(server.url) as broker:
            await _fresh(broker)
            await asyncio.gather(*(broker.append(LOG, f"tw.log.rooms.p{n}.d", b"%d" % n) for n in range(3000)))

    asyncio.run(fill())
    found = {message.subject: message.payload for message in _all(source)}
    assert found == {f"tw.log.rooms.p{n}.d": b"%d" % n for n in range(3000)}
    assert source.subjects(LOG) == dict.fromkeys(found, 1)
    wanted = [f"tw.log.rooms.p{n}.d" for n in range(0, 3000, 3)]
    assert sorted(message.subject for message in _all(source, subjects=wanted)) == sorted(wanted)


def test_range_larger_than_one_request(
    server: EmbeddedServer, source: NatsSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(server, [b"%d" % number for number in range(500)])
    monkeypatch.setattr(log_range, "MAX_REQUESTED", 16)
    wanted = _awaited(server, 500)
    assert _all(source) == wanted
    assert _all(source, 5, 333, ["tw.log.rooms.p0.d"]) == [m for m in wanted[4:333] if m.subject.endswith("p0.d")]


def test_concurrent_and_abandoned_ranges(server: EmbeddedServer, source: NatsSource) -> None:
    payload = bytes(20_000)
    _fill(server, [payload] * 300)
    one, other = source.read(LOG, 1, EVERYTHING), source.read(LOG, 1, 200)
    first, second = next(one), next(other)
    assert source.span(LOG).last == 300
    given_up = source.read(LOG, 1, EVERYTHING)
    assert next(given_up)[0].offset == 1
    given_up.close()
    rest = [message.offset for block in one for message in block]
    assert [message.offset for message in first] + rest == list(range(1, 301))
    assert len(second) + sum(map(len, other)) == 200


def test_slow_caller() -> None:
    """A server may close the connection of a slow receiver; in both cases the rest is read."""
    with EmbeddedServer(lines=["max_payload: 8MB", 'write_deadline: "100ms"']) as impatient:
        _fill(impatient, [os.urandom(5 << 20) for _ in range(8)])
        with open_source(impatient.url, timeout=20) as source:
            offsets = []
            for block in source.read(LOG, 1, EVERYTHING):
                offsets += [message.offset for message in block]
                time.sleep(0.5 if len(offsets) == 1 else 0.0)
            assert offsets == list(range(1, 9))


def test_server_killed_while_reading(tmp_path: os.PathLike[str]) -> None:
    with EmbeddedServer(tmp_path) as mortal:
        _fill(mortal, [b"%d" % number + bytes(20_000) for number in range(600)])
        with open_source(mortal.url, timeout=30) as source:
            reading = source.read(LOG, 1, EVERYTHING)
            found = next(reading)
            for _ in range(2):
                mortal.kill()
                mortal.start_now()
                found += next(reading)
            mortal.kill()
            mortal.start_now()
            found += [message for block in reading for message in block]
            assert [message.offset for message in found] == list(range(1, 601))
            assert all(message.payload.startswith(b"%d" % (message.offset - 1)) for message in found)
            assert source.span(LOG).last == 600


def test_server_that_does_not_return() -> None:
    with EmbeddedServer() as mortal:
        _fill(mortal, [bytes(20_000)] * 600)
        with open_source(mortal.url, timeout=0.5) as source:
            reading = source.read(LOG, 1, EVERYTHING)
            next(reading)
            mortal.kill()
            with pytest.raises(BrokerUnavailable, match=str(mortal.port)):
                list(reading)
            with pytest.raises(BrokerUnavailable):
                source.span(LOG)


def test_connection_cut_repeatedly(server: EmbeddedServer) -> None:
    _fill(server, [b"%d" % number + bytes(9_000) for number in range(900)])

    async def scenario() -> list[StoredMessage]:
        async with asyncio.timeout(60), FaultProxy("127.0.0.1", server.port) as wire:
            reading = asyncio.create_task(asyncio.to_thread(_read_through, wire.port))
            for limit in range(1, 9):
                while wire.from_broker < limit * 900_000 and not reading.done():
                    await asyncio.sleep(0)
                wire.cut()
                wire.restore()
            found = await reading
            assert wire.connections > 4  # one for queries, the others to continue reading
            return found

    assert [message.payload[:-9_000] for message in asyncio.run(scenario())] == [b"%d" % n for n in range(900)]


def _read_through(port: int) -> list[StoredMessage]:
    with open_source(f"nats://127.0.0.1:{port}", timeout=20) as source:
        return _all(source)


def test_log_deleted_while_reading(server: EmbeddedServer, source: NatsSource) -> None:
    payloads = [bytes(20_000)] * 600
    for after in (lambda: _delete_log(server), lambda: _fill(server, payloads)):
        _fill(server, payloads)
        reading = source.read(LOG, 1, EVERYTHING)
        next(reading)
        after()
        with pytest.raises(UnknownLog):
            list(reading)


def test_closed_source(server: EmbeddedServer) -> None:
    _fill(server, [bytes(20_000)] * 600)
    source = open_source(server.url)
    reading = source.read(LOG, 1, EVERYTHING)
    next(reading)
    source.close()
    source.close()
    for question in (lambda: list(reading), lambda: source.span(LOG), lambda: _all(source)):
        with pytest.raises(TransportClosed):
            question()


def test_documents(server: EmbeddedServer, source: NatsSource) -> None:
    async def fill() -> dict[str, bytes]:
        async with asyncio.timeout(60), await connect(server.url) as broker:
            bucket = await broker.bucket("tw_papers")
            for number in range(700):
                await bucket.put(f"room.{number}", b"old")
                await bucket.put(f"room.{number}", b"%d" % number)
            await bucket.put("plan", os.urandom(100_000))
            await bucket.delete("room.13")
            return {entry.key: entry.value or b"" for entry in await bucket.entries()}

    wanted = asyncio.run(fill())
    assert len(wanted) == 700
    assert source.documents("tw_papers") == wanted
    assert source.documents("tw_papers", "plan") == {"plan": wanted["plan"]}
    assert source.documents("tw_papers", "nothing.>") == {}
    assert source.document("tw_papers", "room.699") == b"699"
    assert source.document("tw_papers", "plan") == wanted["plan"]
    assert source.document("tw_papers", "room.13") is None
    assert source.document("tw_papers", "room.9999") is None
    assert source.document("tw_nothing", "plan") is None
    assert source.documents("tw_nothing") == {}
    for wrong in ("room.*", ""):
        with pytest.raises(ThinwireError):
            source.document("tw_papers", wrong)
