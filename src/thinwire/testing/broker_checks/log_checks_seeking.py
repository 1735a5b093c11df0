"""Finding a place in a log, held against a list that is searched from end to end."""

from __future__ import annotations

import asyncio

import numpy as np

from thinwire.brokers.protocol_broker import Broker, Retention, Stored
from thinwire.brokers.subjects import matches
from thinwire.testing.broker_checks.check_site import Site, fresh, take

WORDS = ("p.d", "p.k", "q.d", "q.k", "p.x.d")
PATTERNS = ("p.d", "p.*", "*.k", ">", "p.>", "nobody")


async def check_seeking(site: Site) -> None:
    """`last`, `offset_at`, `span` and `subjects` agree with a list, over random histories with and without a limit."""
    for seed, kept in ((1, None), (2, 7), (3, None)):
        chance = np.random.default_rng(seed)
        script = [WORDS[place] for place in chance.integers(len(WORDS), size=25)]
        async with site.client() as broker:
            await compare_history(broker, script, kept)


async def check_many_subjects(site: Site) -> None:
    """More subjects than a broker likes to answer with at once."""
    async with site.client() as broker:
        log, number = fresh("log"), 1100
        await broker.open_log(log, [f"{log}.>"])
        subjects = [f"{log}.p{place}.k" for place in range(number)]
        offsets = await asyncio.gather(*(broker.append(log, subject, subject.encode()) for subject in subjects))
        assert sorted(offsets) == list(range(1, number + 1))
        assert await broker.subjects(log) == dict.fromkeys(subjects, 1)
        for place in (1, 1050, number, number + 5):
            newest = await broker.last(log, f"{log}.*.k", up_to=place)
            assert newest is not None
            assert newest.offset == min(place, number)
        await broker.delete_log(log)


async def compare_history(broker: Broker, script: list[str], kept: int | None = None) -> None:
    """Write messages under these subjects into a log that keeps so many of them, and ask for every place in it."""
    log = fresh("log")
    await broker.open_log(log, [f"{log}.>"], Retention(messages=kept))
    assert (await broker.span(log))[:3] == (1, 0, 0)
    assert await broker.offset_at(log, 0.0) == 1
    for number, word in enumerate(script):
        await broker.append(log, f"{log}.{word}", str(number).encode())
        if number % 8 == 0:
            await asyncio.sleep(0.002)  # so that times differ now and then
    messages = await take(await broker.read(log, first=1), min(len(script), kept or len(script)))
    await _check_span(broker, log, script, messages)
    for pattern in PATTERNS:
        await _check_pattern(broker, log, f"{log}.{pattern}", messages)
    for message in messages:
        for time in (message.time, message.time - 0.0005):
            expected = next((one.offset for one in messages if one.time >= time), messages[-1].offset + 1)
            assert await broker.offset_at(log, time) == expected, (time, message)
    assert await broker.offset_at(log, messages[-1].time + 1000 if messages else 0.0) == len(script) + 1
    await broker.delete_log(log)


async def _check_span(broker: Broker, log: str, script: list[str], messages: list[Stored]) -> None:
    span = await broker.span(log)
    assert (span.last, span.messages) == (len(script), len(messages))
    assert span.first == (messages[0].offset if messages else 1)
    assert (span.stored_bytes > 0) == bool(messages)


async def _check_pattern(broker: Broker, log: str, pattern: str, messages: list[Stored]) -> None:
    matching = [message for message in messages if matches(pattern, message.subject)]
    assert await broker.last(log, pattern) == (matching[-1] if matching else None)
    names = [message.subject for message in matching]
    assert await broker.subjects(log, pattern) == {name: names.count(name) for name in names}
    for place in {0, 1, *(message.offset for message in messages[::3]), 10**6}:
        before = [message for message in matching if message.offset <= place]
        assert await broker.last(log, pattern, up_to=place) == (before[-1] if before else None), place
