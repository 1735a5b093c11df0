"""Logs on a NATS server."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("nats")

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats.broker import NatsBroker, connect
from thinwire.brokers.protocol import NOTHING, Retention
from thinwire.errors import (
    BadSubject,
    BrokerRefused,
    ConfigError,
    Conflict,
    PayloadTooLarge,
    TransportClosed,
    UnknownLog,
)

SUBJECTS = ["tw.log.rooms.*.*"]
DATA, KEY = "tw.log.rooms.p1.d", "tw.log.rooms.p1.k"
LOG = "tw_log_rooms"


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(lines=["max_payload: 20000"]) as running:
        yield running


def _run(server: EmbeddedServer, scenario: Callable[[NatsBroker], Awaitable[None]]) -> None:
    """Run a scenario with an empty log, in bounded time, and check that no task is left."""

    async def bounded() -> None:
        async with asyncio.timeout(30), await connect(server.url) as broker:
            await broker.delete_log(LOG)
            await broker.ensure_log(LOG, SUBJECTS)
            await scenario(broker)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(bounded())


async def _fill(broker: NatsBroker, count: int, more: bytes = b"") -> None:
    for number in range(1, count + 1):
        assert await broker.append(LOG, DATA, b"%d" % number + more) == number


def test_messages_are_read_in_order(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        assert (await broker.span(LOG))[:4] == (1, 0, 0, 0)
        now = await broker.read(LOG)
        before = time.time()
        await _fill(broker, 10)
        for number in range(1, 11):
            message = await now.next(5)
            assert message is not None
            assert (message.offset, message.subject, message.payload) == (number, DATA, b"%d" % number)
            assert abs(message.time - before) < 60
        assert await now.next(0.01) is None
        later = await broker.read(LOG, first=8)
        assert [(await later.next(5)).offset for _ in range(3)] == [8, 9, 10]  # type: ignore[union-attr]
        span = await broker.span(LOG)
        assert (span.first, span.last, span.messages) == (1, 10, 10)
        assert LOG in await broker.logs()
        await broker.delete_log(LOG)
        await broker.ensure_log(LOG, SUBJECTS)
        assert (await broker.span(LOG)).log_id != span.log_id != ""

    _run(server, scenario)


def test_reader_of_some_subjects(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        for number in range(6):
            await broker.append(LOG, KEY if number % 3 == 0 else DATA, b"%d" % number)
        await broker.append(LOG, "tw.log.rooms.p2.x", b"other")
        keys = await broker.read(LOG, first=1, subjects=["tw.log.rooms.*.k"], max_unacknowledged=1)
        both = await broker.read(LOG, first=1, subjects=[KEY, "tw.log.rooms.p2.x"])
        for offset in (1, 4):
            message = await keys.next(5)
            assert message is not None
            assert message.offset == offset
            keys.done(offset)
        assert await keys.next(0.05) is None
        assert [(await both.next(5)).offset for _ in range(3)] == [1, 4, 7]  # type: ignore[union-attr]

    _run(server, scenario)


def test_slow_reader_receives_no_more_than_the_limit(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        await _fill(broker, 100)
        reader = await broker.read(LOG, first=1, max_unacknowledged=8)
        await asyncio.sleep(0.2)
        assert len(reader._queue) == 8
        held = [await reader.next(5) for _ in range(8)]
        assert await reader.next(0.1) is None, "nothing is worked off, so nothing comes"
        assert held[2] is not None
        reader.done(held[2].offset)
        seen = [message.offset for message in held if message]
        while (message := await reader.next(0.5)) is not None:
            seen.append(message.offset)
            reader.done(message.offset)
        assert seen == list(range(1, 101))

    _run(server, scenario)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 64])
def test_fast_reader_never_stalls(server: EmbeddedServer, limit: int) -> None:
    async def scenario(broker: NatsBroker) -> None:
        await asyncio.gather(*(broker.append(LOG, f"tw.log.rooms.p{source}.d", b"x") for source in range(150)))
        reader = await broker.read(LOG, first=1, max_unacknowledged=limit)
        for offset in range(1, 151):
            message = await reader.next(5)
            assert message is not None
            assert message.offset == offset
            reader.done(offset)

    _run(server, scenario)


def test_append_with_expected_offset(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        mine = "tw.log.rooms.p1.*"
        assert await broker.append(LOG, KEY, b"key", expected_last=NOTHING, last_pattern=mine) == 1
        assert await broker.append(LOG, DATA, b"data", expected_last=1, last_pattern=mine) == 2
        await broker.append(LOG, "tw.log.rooms.p2.d", b"another publisher does not matter")
        with pytest.raises(Conflict):
            await broker.append(LOG, DATA, b"late", expected_last=1, last_pattern=mine)
        with pytest.raises(Conflict):
            await broker.append(LOG, KEY, b"late", expected_last=NOTHING)
        assert await broker.append(LOG, DATA, b"more", expected_last=2) == 4
        assert (await broker.span(LOG)).messages == 4

    _run(server, scenario)


def test_newest_message_up_to_an_offset(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        for number in range(1, 10):
            await broker.append(LOG, KEY if number in (2, 6) else DATA, b"%d" % number)
        found = {up_to: await broker.last(LOG, KEY, up_to=up_to) for up_to in (0, 1, 2, 5, 6, 9, 99)}
        assert {up_to: message and message.offset for up_to, message in found.items()} == {
            0: None,
            1: None,
            2: 2,
            5: 2,
            6: 6,
            9: 6,
            99: 6,
        }
        newest = await broker.last(LOG, "tw.log.rooms.*.*", up_to=7)
        assert newest is not None
        assert (newest.offset, newest.subject, newest.payload) == (7, DATA, b"7")
        assert (await broker.last(LOG, "tw.log.rooms.>")).payload == b"9"  # type: ignore[union-attr]
        assert await broker.last(LOG, "tw.log.rooms.p7.k") is None
        assert await broker.subjects(LOG) == {KEY: 2, DATA: 7}
        assert await broker.subjects(LOG, "tw.log.rooms.*.k") == {KEY: 2}

    _run(server, scenario)


def test_offset_at_a_time(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        await _fill(broker, 5)
        reader = await broker.read(LOG, first=1)
        for offset in range(1, 6):
            message = await reader.next(5)
            assert message is not None
            same = await broker.last(LOG, ">", up_to=offset)
            assert same == message, "the time is the same however a message is read"
            assert await broker.offset_at(LOG, message.time) <= offset
            assert await broker.offset_at(LOG, message.time + 0.000_002) > offset or offset < 5
        assert await broker.offset_at(LOG, 0.0) == 1
        assert await broker.offset_at(LOG, time.time() + 3600) == 6

    _run(server, scenario)


def test_log_retention_and_reopening(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        await broker.delete_log(LOG)
        await broker.ensure_log(LOG, SUBJECTS, Retention(max_messages=3))
        await _fill(broker, 10)
        await broker.ensure_log(LOG, ["tw.log.rooms.p1.*"], Retention(max_messages=100))  # exists, and covers this
        span = await broker.span(LOG)
        assert (span.first, span.last, span.messages) == (8, 10, 3)
        reader = await broker.read(LOG, first=2)
        assert (await reader.next(5)).offset == 8  # type: ignore[union-attr]
        with pytest.raises(ConfigError, match="does not store") as error:
            await broker.ensure_log(LOG, ["tw.log.rooms.>"])
        assert error.value.missing == ["tw.log.rooms.>"]
        with pytest.raises(BrokerRefused):
            await broker.ensure_log("tw_other", SUBJECTS)  # one subject, one log
        await broker.delete_log(LOG)
        await broker.delete_log(LOG)
        assert LOG not in await broker.logs()

    _run(server, scenario)


def test_missing_log_is_an_error_in_every_call(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        for call in (
            broker.span("tw_none"),
            broker.last("tw_none", ">"),
            broker.read("tw_none"),
            broker.read("tw_none", first=1),
            broker.append("tw_none", "tw.none.a", b""),
            broker.append("tw_none", "tw.none.a", b"", expected_last=NOTHING),
            broker.offset_at("tw_none", 0.0),
            broker.append("tw_none", DATA, b"a subject of another log"),
        ):
            with pytest.raises(UnknownLog):
                await call
        for name in ("two words", "a.b", "", "a*"):
            with pytest.raises(BadSubject):
                await broker.span(name)
        with pytest.raises(BadSubject):
            await broker.append(LOG, "tw.log.rooms.p1.d\r\nPUB x 0\r\n", b"")

    _run(server, scenario)


def test_payload_above_the_limit_keeps_the_connection(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        limit = broker.max_payload
        assert 15_000 < limit < 20_000, "the server's limit, less room for headers"
        with pytest.raises(PayloadTooLarge) as error:
            await broker.append(LOG, DATA, bytes(limit + 1))
        assert (error.value.size, error.value.limit) == (limit + 1, limit)
        assert await broker.append(LOG, DATA, bytes(limit), expected_last=NOTHING) == 1
        assert await broker.append(LOG, DATA, bytes(limit)) == 2
        assert broker.connected

    _run(server, scenario)


def test_full_storage_is_reported(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedServer) -> None:
        async with asyncio.timeout(30), await connect(server.url) as broker:
            await broker.ensure_log(LOG, SUBJECTS, Retention(max_bytes=None))
            with pytest.raises(BrokerRefused, match="disk space"):
                await _fill(broker, 100, bytes(50_000))
            assert 0 < (await broker.span(LOG)).messages < 100
            assert broker.connected

    with EmbeddedServer(lines=[f'jetstream {{ store_dir: "{tmp_path}", max_file_store: 1MB }}']) as small:
        asyncio.run(scenario(small))


def test_close_fails_pending_calls(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        reader = await broker.read(LOG)
        waiting = asyncio.create_task(reader.next())
        await asyncio.sleep(0.01)
        await broker.close()
        await broker.close()
        with pytest.raises(TransportClosed):
            await waiting
        for call in (reader.next(), broker.append(LOG, DATA, b""), broker.span(LOG), broker.send("a", b"")):
            with pytest.raises(TransportClosed):
                await call

    _run(server, scenario)


def test_reader_of_a_recreated_log_fails(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        await _fill(broker, 3)
        reader = await broker.read(LOG, first=1)
        for _ in range(3):
            await reader.next(5)
        await broker.delete_log(LOG)
        await broker.ensure_log(LOG, SUBJECTS)
        reader._replace_consumer()  # as it does when heartbeats are missing
        with pytest.raises(UnknownLog, match="created again"):
            await reader.next(20)

    _run(server, scenario)
