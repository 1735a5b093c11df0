"""The lossy transport without faults: order, sequences, patterns, bounded queues, the log, closing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lossy_transport import Backpressure, LossyTransport, TransportMessage
from transport_faults import Faults

from thinwire.brokers import matches
from thinwire.clock import VirtualClock
from thinwire.errors import (
    BadSubject,
    ConfigError,
    DataLoss,
    PayloadTooLarge,
    TransportClosed,
    TransportError,
)

SUBJECTS = ["a", "a.b", "a.c", "b.c.d"]
PATTERNS = [*SUBJECTS, "*", "a.*", "a.>", ">", "*.c.>", "unmatched"]
published_messages = st.lists(st.tuples(st.sampled_from(SUBJECTS), st.binary(max_size=4)), max_size=30)


def create_broker(*faults, **settings):
    return LossyTransport(VirtualClock(), *faults, **settings)


def receive_payloads(inbox):
    return [message.payload for message in inbox]


@given(published_messages, st.lists(st.sampled_from(PATTERNS), max_size=6))
def test_every_inbox_gets_the_matching_messages_in_order_with_sequences(messages, patterns):
    broker = create_broker()
    inboxes = [broker.subscribe(pattern) for pattern in patterns]
    expected, last = [], dict.fromkeys(SUBJECTS, 0)
    for subject, payload in messages:
        last[subject] += 1
        assert broker.publish(subject, payload) == last[subject]
        expected.append(TransportMessage(subject, payload, {}, last[subject]))
    for inbox in inboxes:
        assert list(inbox) == [message for message in expected if matches(inbox.pattern, message.subject)]
        assert inbox.receive() is None
    for subject in SUBJECTS:
        assert list(broker.replay(subject)) == [message for message in expected if message.subject == subject]


def test_headers_are_delivered():
    broker = create_broker()
    inbox = broker.subscribe("a", limit=3)
    broker.publish("a", b"1", {"tw": "x"})
    assert inbox.receive() == TransportMessage("a", b"1", {"tw": "x"}, 1)


def test_an_inbox_gets_only_messages_published_after_subscribing():
    broker = create_broker()
    broker.publish("a", b"before")
    inbox = broker.subscribe("a")
    broker.publish("a", b"after")
    assert receive_payloads(inbox) == [b"after"]


def test_a_message_does_not_change_with_the_arguments_of_publish():
    broker = create_broker()
    inbox = broker.subscribe("a")
    payload, headers = bytearray(b"one"), {"k": "one"}
    broker.publish("a", payload, headers)
    payload[:], headers["k"] = b"two", "two"
    assert inbox.receive() == TransportMessage("a", b"one", {"k": "one"}, 1)


def test_a_broker_without_sequences_has_no_log():
    broker = create_broker(gapless=False)
    inbox = broker.subscribe("a")
    assert broker.publish("a", b"1") is None
    assert inbox.receive().sequence is None
    with pytest.raises(TransportError, match="no log"):
        broker.replay("a")


@given(st.integers(1, 6), st.integers(0, 12))
def test_the_log_retains_the_newest_messages(retain, count):
    broker = create_broker(retain=retain)
    for number in range(1, count + 1):
        broker.publish("a", bytes([number]))
    first, last = broker.span("a")
    assert (last, last - first + 1) == (count, min(count, retain))
    for start in range(first, count + 3):
        assert [message.sequence for message in broker.replay("a", start)] == list(range(start, count + 1))
    if first > 1:
        with pytest.raises(DataLoss) as raised:
            broker.replay("a", first - 1)
        assert (raised.value.sequence, raised.value.first, raised.value.last) == (first - 1, first, last)


def test_sequences_count_from_1():
    with pytest.raises(TransportError, match="from 1"):
        create_broker().replay("a", 0)


def test_backpressure_is_raised_without_any_effect():
    broker = create_broker()
    full, other = broker.subscribe("a.*", limit=2), broker.subscribe(">")
    broker.publish("a.b", b"1")
    broker.publish("a.b", b"2")
    with pytest.raises(Backpressure) as raised:
        broker.publish("a.b", b"3")
    assert (raised.value.pattern, raised.value.limit, raised.value.retriable) == ("a.*", 2, True)
    assert broker.span("a.b") == (1, 2)
    broker.publish("elsewhere", b"x")
    assert full.receive().payload == b"1"
    assert broker.publish("a.b", b"3") == 3
    assert receive_payloads(full) == [b"2", b"3"]
    assert receive_payloads(other) == [b"1", b"2", b"x", b"3"]


def test_a_full_inbox_with_drop_policy_loses_the_newest_messages_and_counts_them():
    broker = create_broker()
    inbox, other = broker.subscribe("a", limit=2, policy="drop"), broker.subscribe("a")
    for number in range(5):
        broker.publish("a", bytes([number]))
    assert (len(inbox), inbox.dropped) == (2, 3)
    assert receive_payloads(inbox) == [b"\0", b"\1"]
    assert len(receive_payloads(other)) == 5


@given(st.sampled_from(["block", "drop"]), st.integers(1, 4), st.lists(st.sampled_from("psr"), max_size=60))
def test_a_queue_stays_bounded_and_every_message_is_received_or_counted(policy, limit, steps):
    broker = create_broker(Faults(delay=(0, 2)))
    inbox = broker.subscribe("a", limit=limit, policy=policy)
    accepted = received = 0
    for step in steps:
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
        assert len(inbox.in_flight) <= limit
    broker.clock.advance(2)
    received += len(receive_payloads(inbox))
    assert received + inbox.dropped == accepted


def test_messages_in_flight_to_the_broker_are_bounded():
    broker = create_broker(Faults(delay=(1, 1), at="publish"), limit=2)
    assert [broker.publish("a", b""), broker.publish("a", b"")] == [None, None]
    with pytest.raises(Backpressure, match="in flight"):
        broker.publish("a", b"")
    broker.clock.advance(1)
    assert broker.publish("a", b"") is None
    assert broker.span("a") == (1, 2)


def test_the_error_of_a_payload_above_the_limit_has_the_sizes():
    broker = create_broker(max_payload=16)
    broker.publish("a", bytes(16))
    with pytest.raises(PayloadTooLarge) as raised:
        broker.publish("a", bytes(17))
    assert (raised.value.subject, raised.value.size, raised.value.limit) == ("a", 17, 16)
    with pytest.raises(PayloadTooLarge):
        broker.publish("a", bytes(10), {"k": "v" * 2})
    assert broker.span("a") == (1, 1)


@pytest.mark.parametrize("headers", [{"": "x"}, {"a:b": "x"}, {"a": "x\r\ny"}, {"a\n": "x"}])
def test_a_header_must_be_one_line(headers):
    with pytest.raises(TransportError, match="on one line"):
        create_broker().publish("a", b"", headers)


def test_headers_raise_an_error_on_a_transport_without_headers():
    with pytest.raises(TransportError, match="no headers"):
        create_broker(headers=False).publish("a", b"", {"k": "v"})


def test_a_payload_must_be_bytes():
    with pytest.raises(TransportError, match="given='int'"):
        create_broker().publish("a", 7)


def test_subjects_and_settings_are_checked():
    with pytest.raises(BadSubject):
        create_broker().publish("a.*", b"")
    with pytest.raises(BadSubject):
        create_broker().subscribe("a..b")
    with pytest.raises(ConfigError, match="limit=0"):
        create_broker().subscribe("a", limit=0)
    with pytest.raises(ConfigError, match="'discard'"):
        create_broker().subscribe("a", policy="discard")
    with pytest.raises(ConfigError, match="retain=0"):
        create_broker(retain=0)


def test_a_closed_inbox_still_returns_messages_that_had_arrived():
    broker = create_broker(Faults(delay=(1, 1)))
    inbox, other = broker.subscribe("a", limit=2), broker.subscribe("a")
    broker.publish("a", b"arrived")
    broker.clock.advance(1)
    broker.publish("a", b"in flight")
    inbox.close()
    inbox.close()
    broker.publish("a", b"too late")
    broker.clock.advance(5)
    assert receive_payloads(inbox) == [b"arrived"]
    assert inbox.closed
    assert receive_payloads(other) == [b"arrived", b"in flight", b"too late"]


def test_a_closed_broker_raises_and_its_inboxes_are_closed():
    with create_broker() as broker:
        inbox = broker.subscribe("a")
        broker.publish("a", b"last")
    broker.close()
    assert (broker.closed, inbox.closed, broker.next_due()) == (True, True, None)
    assert receive_payloads(inbox) == [b"last"]
    for call in (lambda: broker.publish("a", b""), lambda: broker.subscribe("a"), lambda: broker.replay("a")):
        with pytest.raises(TransportClosed):
            call()
