"""The broker in memory, behaving: order, numbers, patterns, bounded queues, a log, a clean end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.brokers import matches
from thinwire.clock import VirtualClock
from thinwire.errors import (
    Backpressure,
    BadSubject,
    ConfigError,
    DataLoss,
    PayloadTooLarge,
    TransportClosed,
    TransportError,
)
from thinwire.testing.worlds.lossy_transport import MemoryBroker, TransportMessage
from thinwire.testing.worlds.transport_faults import Faults

SUBJECTS = ["a", "a.b", "a.c", "b.c.d"]
PATTERNS = [*SUBJECTS, "*", "a.*", "a.>", ">", "*.c.>", "nobody"]
sends = st.lists(st.tuples(st.sampled_from(SUBJECTS), st.binary(max_size=4)), max_size=30)


def broker_of(*faults, **settings):
    return MemoryBroker(VirtualClock(), *faults, **settings)


def payloads(inbox):
    return [message.payload for message in inbox]


@given(sends, st.lists(st.sampled_from(PATTERNS), max_size=6))
def test_every_inbox_gets_what_matches_in_order_and_numbered(script, patterns):
    broker = broker_of()
    inboxes = [broker.subscribe(pattern) for pattern in patterns]
    expected, last = [], dict.fromkeys(SUBJECTS, 0)
    for subject, payload in script:
        last[subject] += 1
        assert broker.publish(subject, payload) == last[subject]
        expected.append(TransportMessage(subject, payload, {}, last[subject]))
    for inbox in inboxes:
        assert list(inbox) == [message for message in expected if matches(inbox.pattern, message.subject)]
        assert inbox.receive() is None
    for subject in SUBJECTS:
        assert list(broker.replay(subject)) == [message for message in expected if message.subject == subject]


def test_headers_are_delivered():
    broker = broker_of()
    inbox = broker.subscribe("a", limit=3)
    broker.publish("a", b"1", {"tw": "x"})
    assert inbox.receive() == TransportMessage("a", b"1", {"tw": "x"}, 1)


def test_only_what_comes_after_subscribing():
    broker = broker_of()
    broker.publish("a", b"before")
    inbox = broker.subscribe("a")
    broker.publish("a", b"after")
    assert payloads(inbox) == [b"after"]


def test_a_message_cannot_be_changed_by_its_sender():
    broker = broker_of()
    inbox = broker.subscribe("a")
    payload, headers = bytearray(b"one"), {"k": "one"}
    broker.publish("a", payload, headers)
    payload[:], headers["k"] = b"two", "two"
    assert inbox.receive() == TransportMessage("a", b"one", {"k": "one"}, 1)


def test_without_sequences_there_is_no_log():
    broker = broker_of(gapless=False)
    inbox = broker.subscribe("a")
    assert broker.publish("a", b"1") is None
    assert inbox.receive().sequence is None
    with pytest.raises(TransportError, match="no log"):
        broker.replay("a")


@given(st.integers(1, 6), st.integers(0, 12))
def test_the_log_keeps_the_newest(retain, count):
    broker = broker_of(retain=retain)
    for number in range(1, count + 1):
        broker.publish("a", bytes([number]))
    first, last = broker.span("a")
    assert (last, last - first + 1) == (count, min(count, retain))
    for start in range(first, count + 3):
        assert [message.sequence for message in broker.replay("a", start)] == list(range(start, count + 1))
    if first > 1:
        with pytest.raises(DataLoss) as caught:
            broker.replay("a", first - 1)
        assert (caught.value.sequence, caught.value.first, caught.value.last) == (first - 1, first, last)


def test_sequences_count_from_1():
    with pytest.raises(TransportError, match="from 1"):
        broker_of().replay("a", 0)


def test_back_pressure_refuses_the_publisher_and_changes_nothing():
    broker = broker_of()
    full, other = broker.subscribe("a.*", limit=2), broker.subscribe(">")
    broker.publish("a.b", b"1")
    broker.publish("a.b", b"2")
    with pytest.raises(Backpressure) as caught:
        broker.publish("a.b", b"3")
    assert (caught.value.pattern, caught.value.limit, caught.value.retriable) == ("a.*", 2, True)
    assert broker.span("a.b") == (1, 2)
    broker.publish("elsewhere", b"x")
    assert full.receive().payload == b"1"
    assert broker.publish("a.b", b"3") == 3
    assert payloads(full) == [b"2", b"3"]
    assert payloads(other) == [b"1", b"2", b"x", b"3"]


def test_a_dropping_inbox_loses_the_newest_and_counts():
    broker = broker_of()
    inbox, other = broker.subscribe("a", limit=2, policy="drop"), broker.subscribe("a")
    for number in range(5):
        broker.publish("a", bytes([number]))
    assert (len(inbox), inbox.dropped) == (2, 3)
    assert payloads(inbox) == [b"\0", b"\1"]
    assert len(payloads(other)) == 5


@given(st.sampled_from(["block", "drop"]), st.integers(1, 4), st.lists(st.sampled_from("psr"), max_size=60))
def test_whatever_happens_a_queue_stays_bounded_and_every_message_is_accounted_for(policy, limit, script):
    broker = broker_of(Faults(delay=(0, 2)))
    inbox = broker.subscribe("a", limit=limit, policy=policy)
    accepted = received = 0
    for step in script:
        if step == "p":
            try:
                broker.publish("a", b"")
                accepted += 1
            except Backpressure:
                assert policy == "block"
        elif step == "s":
            broker.clock.advance(1)
            broker.step()
        else:
            received += inbox.receive() is not None
        assert len(inbox) <= limit
        assert len(inbox.flight) <= limit
    broker.clock.advance(2)
    received += len(payloads(inbox))
    assert received + inbox.dropped == accepted


def test_messages_on_their_way_to_the_broker_are_bounded_too():
    broker = broker_of(Faults(delay=(1, 1), at="publish"), limit=2)
    assert [broker.publish("a", b""), broker.publish("a", b"")] == [None, None]
    with pytest.raises(Backpressure, match="on their way"):
        broker.publish("a", b"")
    broker.clock.advance(1)
    assert broker.publish("a", b"") is None
    assert broker.span("a") == (1, 2)


def test_a_payload_above_the_limit_names_the_sizes():
    broker = broker_of(max_payload=16)
    broker.publish("a", bytes(16))
    with pytest.raises(PayloadTooLarge) as caught:
        broker.publish("a", bytes(17))
    assert (caught.value.subject, caught.value.size, caught.value.limit) == ("a", 17, 16)
    with pytest.raises(PayloadTooLarge):
        broker.publish("a", bytes(10), {"k": "v" * 2})
    assert broker.span("a") == (1, 1)


@pytest.mark.parametrize("headers", [{"": "x"}, {"a:b": "x"}, {"a": "x\r\ny"}, {"a\n": "x"}])
def test_a_header_is_one_line(headers):
    with pytest.raises(TransportError, match="on one line"):
        broker_of().publish("a", b"", headers)


def test_a_transport_without_headers_says_so():
    with pytest.raises(TransportError, match="no headers"):
        broker_of(headers=False).publish("a", b"", {"k": "v"})


def test_a_payload_is_bytes():
    with pytest.raises(TransportError, match="given='int'"):
        broker_of().publish("a", 7)


def test_subjects_and_settings_are_checked():
    with pytest.raises(BadSubject):
        broker_of().publish("a.*", b"")
    with pytest.raises(BadSubject):
        broker_of().subscribe("a..b")
    with pytest.raises(ConfigError, match="limit=0"):
        broker_of().subscribe("a", limit=0)
    with pytest.raises(ConfigError, match="'forget'"):
        broker_of().subscribe("a", policy="forget")
    with pytest.raises(ConfigError, match="retain=0"):
        broker_of(retain=0)


def test_a_closed_inbox_keeps_what_had_arrived():
    broker = broker_of(Faults(delay=(1, 1)))
    inbox, other = broker.subscribe("a", limit=2), broker.subscribe("a")
    broker.publish("a", b"arrived")
    broker.clock.advance(1)
    broker.publish("a", b"on its way")
    inbox.close()
    inbox.close()
    broker.publish("a", b"too late")
    broker.clock.advance(5)
    assert payloads(inbox) == [b"arrived"]
    assert inbox.closed
    assert payloads(other) == [b"arrived", b"on its way", b"too late"]


def test_a_closed_broker_is_closed_for_everybody():
    with broker_of() as broker:
        inbox = broker.subscribe("a")
        broker.publish("a", b"last")
    broker.close()
    assert (broker.closed, inbox.closed, broker.next_due()) == (True, True, None)
    assert payloads(inbox) == [b"last"]
    for call in (lambda: broker.publish("a", b""), lambda: broker.subscribe("a"), lambda: broker.replay("a")):
        with pytest.raises(TransportClosed):
            call()
