"""The memory broker compared with a list and a dictionary."""

import asyncio

from broker_checks.log_checks import PATTERNS, WORDS, compare_history
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.brokers.memory.storage import Documents, MessageLog
from thinwire.brokers.protocol import ANY, NOTHING, BucketEntry, Retention, Span, StoredMessage
from thinwire.brokers.subjects import SubjectFilter, matches
from thinwire.clock import VirtualClock
from thinwire.errors import Conflict

limits = st.one_of(st.none(), st.integers(1, 12))
writes = st.lists(
    st.tuples(st.sampled_from(WORDS), st.binary(max_size=4), st.sampled_from([0.0, 1.0, 3.0])), max_size=30
)


@given(writes, limits, limits, st.one_of(st.none(), st.integers(1, 60)), st.integers(-1, 35), st.floats(-1, 60))
def test_log_equals_a_list(script, messages, seconds, size, position, time):
    clock = VirtualClock()
    log = MessageLog("log", [">"], Retention(seconds, size, messages), clock)
    stored = []
    for offset, (subject, payload, pause) in enumerate(script, 1):
        clock.advance(pause)
        assert log.store(subject, payload) == offset
        stored.append(StoredMessage(offset, subject, payload, clock.now()))
    clock.advance(0.5)
    stored = [one for one in stored if seconds is None or one.time >= clock.now() - seconds]
    stored = stored[-messages:] if messages else stored
    while size and weight(stored) > size:
        del stored[0]
    last = len(script)
    assert log.span() == Span(stored[0].offset if stored else last + 1, last, len(stored), weight(stored), log.log_id)
    assert log.offset_at(time) == next((one.offset for one in stored if one.time >= time), last + 1)
    for pattern in PATTERNS:
        fitting = [one for one in stored if matches(pattern, one.subject)]
        names = [one.subject for one in fitting]
        assert log.subjects(pattern) == {name: names.count(name) for name in names}
        assert log.last(pattern) == (fitting[-1] if fitting else None)
        assert log.last(pattern, position) == next((one for one in reversed(fitting) if one.offset <= position), None)
        following = next((one for one in fitting if one.offset >= position), None)
        assert log.next(position, SubjectFilter([pattern])) == following


def weight(messages):
    return sum(len(one.subject) + len(one.payload) for one in messages)


@given(st.lists(st.sampled_from(WORDS), max_size=12), limits)
@settings(max_examples=25)
def test_broker_equals_a_list(script, retained):
    async def scenario():
        async with LocalBroker(LocalServer()) as broker:
            await compare_history(broker, script, retained)

    asyncio.run(scenario())


changes = st.lists(
    st.tuples(
        st.sampled_from(["a.x", "a.y", "b"]),
        st.one_of(st.none(), st.binary(max_size=2)),
        st.one_of(st.sampled_from([ANY, NOTHING, "seen"]), st.integers(1, 20)),
    ),
    max_size=25,
)


@given(changes, st.integers(0, 25))
def test_bucket_equals_a_dictionary(script, seen):
    documents, entries, revision = Documents("bucket"), {}, 0
    for key, value, insisted in script:
        last = entries.get(key, BucketEntry(key, None, NOTHING))
        wanted = last.revision if insisted == "seen" else insisted
        fits = wanted in (ANY, last.revision) or ((wanted == NOTHING or value is None) and last.value is None)
        try:
            documents.put(key, value, wanted) if value is not None else documents.delete(key, wanted)
        except Conflict:
            assert not fits
            continue
        assert fits
        if value is not None or last.value is not None:
            revision += 1
            entries[key] = BucketEntry(key, value, revision)
    changed = sorted(entries.values(), key=lambda entry: entry.revision)
    assert documents.changes_after(seen) == [entry for entry in changed if entry.revision > seen]
    assert documents.entries("a.*") == [entry for entry in changed if entry.value is not None and entry.key != "b"]
    for key, entry in entries.items():
        assert documents.get(key) == (None if entry.value is None else entry)
