"""The way of channels into their log: in order, once, and not at all where another translator writes."""

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


def story(tell, retention=None):
    async def told():
        server = LocalServer()
        async with LocalBroker(server, timeout=0.2) as broker, LocalBroker(server) as other:
            await broker.ensure_log(LOG, [channel_subjects(TOPIC)], retention)
            await tell(server, broker, other)

    asyncio.run(told())


def messages(class_id, *words, publisher="p1", key=False):
    return [ChannelMessage(class_id, publisher, key, word.encode()) for word in words]


async def stored(broker):
    reader = await broker.read(LOG, first=1)
    found = {}
    for _ in range((await broker.span(LOG)).last):
        message = await reader.next(1.0)
        channel = class_in(message.subject), publisher_in(message.subject), message.subject[-1]
        found.setdefault(channel, []).append(message.payload.decode())
    await reader.close()
    return found


def test_each_channel_in_its_order_and_key_frames_under_their_subject():
    async def tell(server, broker, other):
        writer = ChannelWriter(broker, TOPIC)
        many = [
            message
            for n in range(50)
            for message in (*messages(f"c{n}", "a", key=True), *messages(f"c{n}", "b", "c"), *messages(f"c{n}", "d"))
        ]
        await writer.write(many)
        found = await stored(broker)
        assert len(found) == 100
        assert all(words == (["a"] if kind == "k" else ["b", "c", "d"]) for (_, _, kind), words in found.items())
        assert writer.last("c7", "p1") > 0
        assert writer.last("c7", "p2") == 0

    story(tell)


def test_where_another_wrote_nothing_is_written():
    async def tell(server, broker, other):
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

    story(tell)


def test_one_that_was_silent_for_a_while_looks_again(monkeypatch):
    async def tell(server, broker, other):
        sleeper, successor = ChannelWriter(broker, TOPIC), ChannelWriter(other, TOPIC)
        await sleeper.write(messages("c", "a"))
        successor.set_last_offsets("c", {"p1": sleeper.last("c", "p1")})
        await successor.write(messages("c", "b"))
        monkeypatch.setattr(fenced_writer, "FENCE_INTERVAL", 0.0)
        with pytest.raises(Superseded):
            await sleeper.write(messages("c", "never"))

    story(tell)


class Paused:
    """A broker whose appends are decided, and sent when the gate opens."""

    def __init__(self, inner):
        self._inner = inner
        self.gate, self.decided = asyncio.Event(), asyncio.Event()
        self.gate.set()

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def append(self, *args, **options):
        self.decided.set()
        await self.gate.wait()
        return await self._inner.append(*args, **options)


def test_one_that_slept_between_deciding_and_sending_insists_with_the_next_message(monkeypatch):
    monkeypatch.setattr(fenced_writer, "FENCE_INTERVAL", 60.0)

    async def tell(server, broker, other):
        loop, slept = asyncio.get_running_loop(), 0.0
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + slept)
        paused = Paused(broker)
        sleeper, successor = ChannelWriter(paused, TOPIC), ChannelWriter(other, TOPIC)
        await sleeper.write(messages("c", "a"))
        paused.gate.clear()
        paused.decided.clear()
        writing_on = asyncio.create_task(sleeper.write(messages("c", "slips through", "never")))
        await paused.decided.wait()
        successor.set_last_offsets("c", {"p1": sleeper.last("c", "p1")})
        await successor.write(messages("c", "b"))
        slept = 100.0
        paused.gate.set()
        with pytest.raises(Superseded):
            await writing_on
        assert await stored(broker) == {("c", "p1", "d"): ["a", "b", "slips through"]}

    story(tell)


@pytest.mark.parametrize("always", [False, True])
def test_an_answer_that_is_lost_stores_nothing_twice(always, monkeypatch):
    async def tell(server, broker, other):
        if always:
            monkeypatch.setattr(fenced_writer, "FENCE_INTERVAL", 0.0)
        writer = ChannelWriter(broker, TOPIC)
        await writer.write(messages("c", "a"))
        server.lose_acknowledgements(2)
        await writer.write(messages("c", "b", "c"))
        await writer.write(messages("c", "d"))
        assert await stored(broker) == {("c", "p1", "d"): ["a", "b", "c", "d"]}

    story(tell)


def test_a_broker_that_is_away_is_waited_for(monkeypatch):
    monkeypatch.setattr(fenced_writer, "ATTEMPT_TIMEOUT", 0.05)

    async def tell(server, broker, other):
        writer = ChannelWriter(broker, TOPIC)
        server.stop()
        task = asyncio.create_task(writer.write(messages("c", "a", "b")))
        await asyncio.sleep(0.2)
        server.start()
        await task
        assert await stored(broker) == {("c", "p1", "d"): ["a", "b"]}

    story(tell)


def test_what_the_log_has_forgotten_is_no_conflict():
    async def tell(server, broker, other):
        writer = ChannelWriter(broker, TOPIC)
        writer.set_last_offsets("c", {"p1": 7})
        await writer.write(messages("c", "a"))
        assert (await broker.span(LOG)).messages == 1

    story(tell, Retention(max_messages=10))


def test_a_log_that_is_gone_is_not_waited_for():
    async def tell(server, broker, other):
        await broker.delete_log(LOG)
        with pytest.raises(UnknownLog):
            await ChannelWriter(broker, TOPIC).write(messages("c", "a"))

    story(tell)
