"""Channel writer: stores messages in order and once, and is refused after another translator has written."""

import asyncio

import pytest

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.brokers.protocol import Retention
from thinwire.errors import Superseded, UnknownLog
from thinwire.services.translator.channel_writer import ChannelMessage, ChannelWriter
from thinwire.topics import fenced_writer
from thinwire.topics.names import channel_log_of, channel_subjects, class_in, publisher_in

TOPIC = "building.rooms"
LOG = channel_log_of(TOPIC)


def run(main, retention=None):
    async def connected():
        server = LocalServer()
        async with LocalBroker(server, timeout=0.2) as broker, LocalBroker(server) as other:
            await broker.ensure_log(LOG, [channel_subjects(TOPIC)], retention)
            await main(server, broker, other)

    asyncio.run(connected())


def messages(class_id, *texts, publisher="p1", key=False):
    return [ChannelMessage(class_id, publisher, key, text.encode()) for text in texts]


async def stored(broker):
    reader = await broker.read(LOG, first=1)
    found = {}
    for _ in range((await broker.span(LOG)).last):
        message = await reader.next(1.0)
        channel = class_in(message.subject), publisher_in(message.subject), message.subject[-1]
        found.setdefault(channel, []).append(message.payload.decode())
    await reader.close()
    return found


def test_channels_are_stored_in_order_and_key_frames_under_their_own_subject():
    async def main(server, broker, other):
        writer = ChannelWriter(broker, TOPIC)
        many = [
            message
            for n in range(50)
            for message in (*messages(f"c{n}", "a", key=True), *messages(f"c{n}", "b", "c"), *messages(f"c{n}", "d"))
        ]
        await writer.write(many)
        found = await stored(broker)
        assert len(found) == 100
        assert all(texts == (["a"] if kind == "k" else ["b", "c", "d"]) for (_, _, kind), texts in found.items())
        assert writer.last("c7", "p1") > 0
        assert writer.last("c7", "p2") == 0

    run(main)


def test_a_write_after_one_of_another_translator_is_refused():
    async def main(server, broker, other):
        first = ChannelWriter(broker, TOPIC)
        await first.write(messages("c", "a"))
        second = ChannelWriter(other, TOPIC)
        second.set_last_offsets("c", {"p1": first.last("c", "p1")})
        await second.write(messages("c", "b"))
        late = ChannelWriter(broker, TOPIC)
        late.set_last_offsets("c", {"p1": first.last("c", "p1")})
        for _ in range(2):
            with pytest.raises(Superseded):
                await late.write(messages("c", "never"))
        with pytest.raises(Superseded):
            await late.write(messages("other", "never"))
        assert await stored(broker) == {("c", "p1", "d"): ["a", "b"]}

    run(main)


def test_the_first_write_after_an_idle_interval_is_fenced(monkeypatch):
    async def main(server, broker, other):
        former, successor = ChannelWriter(broker, TOPIC), ChannelWriter(other, TOPIC)
        await former.write(messages("c", "a"))
        successor.set_last_offsets("c", {"p1": former.last("c", "p1")})
        await successor.write(messages("c", "b"))
        monkeypatch.setattr(fenced_writer, "FENCE_INTERVAL", 0.0)
        with pytest.raises(Superseded):
            await former.write(messages("c", "never"))

    run(main)


class Paused:
    """A broker whose appends wait until the gate opens."""

    def __init__(self, inner):
        self._inner = inner
        self.gate, self.called = asyncio.Event(), asyncio.Event()
        self.gate.set()

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def append(self, *args, **options):
        self.called.set()
        await self.gate.wait()
        return await self._inner.append(*args, **options)


def test_a_writer_paused_within_an_append_is_refused_at_the_next_message(monkeypatch):
    monkeypatch.setattr(fenced_writer, "FENCE_INTERVAL", 60.0)

    async def main(server, broker, other):
        loop, pause = asyncio.get_running_loop(), 0.0
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + pause)
        paused = Paused(broker)
        former, successor = ChannelWriter(paused, TOPIC), ChannelWriter(other, TOPIC)
        await former.write(messages("c", "a"))
        paused.gate.clear()
        paused.called.clear()
        write = asyncio.create_task(former.write(messages("c", "slips through", "never")))
        await paused.called.wait()
        successor.set_last_offsets("c", {"p1": former.last("c", "p1")})
        await successor.write(messages("c", "b"))
        pause = 100.0
        paused.gate.set()
        with pytest.raises(Superseded):
            await write
        assert await stored(broker) == {("c", "p1", "d"): ["a", "b", "slips through"]}

    run(main)


@pytest.mark.parametrize("always_fenced", [False, True])
def test_a_message_whose_acknowledgement_was_lost_is_stored_once(always_fenced, monkeypatch):
    async def main(server, broker, other):
        if always_fenced:
            monkeypatch.setattr(fenced_writer, "FENCE_INTERVAL", 0.0)
        writer = ChannelWriter(broker, TOPIC)
        await writer.write(messages("c", "a"))
        server.lose_acknowledgements(2)
        await writer.write(messages("c", "b", "c"))
        await writer.write(messages("c", "d"))
        assert await stored(broker) == {("c", "p1", "d"): ["a", "b", "c", "d"]}

    run(main)


def test_a_write_waits_for_an_unavailable_broker(monkeypatch):
    monkeypatch.setattr(fenced_writer, "ATTEMPT_TIMEOUT", 0.05)

    async def main(server, broker, other):
        writer = ChannelWriter(broker, TOPIC)
        server.stop()
        task = asyncio.create_task(writer.write(messages("c", "a", "b")))
        await asyncio.sleep(0.2)
        server.start()
        await task
        assert await stored(broker) == {("c", "p1", "d"): ["a", "b"]}

    run(main)


def test_messages_removed_by_retention_are_no_conflict():
    async def main(server, broker, other):
        writer = ChannelWriter(broker, TOPIC)
        writer.set_last_offsets("c", {"p1": 7})
        await writer.write(messages("c", "a"))
        assert (await broker.span(LOG)).messages == 1

    run(main, Retention(max_messages=10))


def test_a_write_to_a_deleted_log_fails_immediately():
    async def main(server, broker, other):
        await broker.delete_log(LOG)
        with pytest.raises(UnknownLog):
            await ChannelWriter(broker, TOPIC).write(messages("c", "a"))

    run(main)
