"""Each fault has its effect and no other, and the same seed repeats it."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lossy_transport import LossyTransport
from transport_faults import Faults

from thinwire.clock import VirtualClock
from thinwire.errors import ConfigError

END = 10_000.0
"""time at which a run ends"""
probabilities = st.sampled_from([0.0, 0.1, 0.5, 1.0])
ranges = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda pair: tuple(map(float, sorted(pair))))
any_faults = st.builds(
    Faults,
    loss=st.sampled_from([0.0, 0.1, 0.5]),
    duplication=probabilities,
    reordering=probabilities,
    corruption=probabilities,
    delay=ranges,
    hold=ranges,
    at=st.sampled_from(["delivery", "publish"]),
)


def run_transport(faults, count, seed=0, interval=0.1, step=False):
    """Publish numbered messages. Return what each of two subscribers receives as (time, sequence, payload)."""
    clock = VirtualClock()
    broker = LossyTransport(clock, faults, seed)
    inboxes = [broker.subscribe("a"), broker.subscribe(">")]
    received = [[], []]

    def receive():
        for inbox, messages in zip(inboxes, received, strict=True):
            messages.extend((clock.now(), message.sequence, message.payload) for message in inbox)

    for number in range(1, count + 1):
        broker.publish("a", number.to_bytes(2, "big"))
        receive()
        clock.advance(interval)
        if step:
            broker.step()
    receive()
    while (due := broker.next_due()) is not None and due < END:
        clock.advance(max(due - clock.now(), 0.0))
        receive()
    return received


def numbers(messages):
    return [int.from_bytes(payload, "big") for _, _, payload in messages]


@given(any_faults, st.integers(0, 2**32))
def test_the_same_seed_repeats_the_same_faults(faults, seed):
    assert run_transport(faults, 20, seed) == run_transport(faults, 20, seed)


@given(any_faults)
def test_more_steps_do_not_change_the_faults(faults):
    assert run_transport(faults, 20, seed=3) == run_transport(faults, 20, seed=3, step=True)


def test_another_seed_has_other_faults():
    faults = Faults(loss=0.5)
    assert run_transport(faults, 100, seed=1) != run_transport(faults, 100, seed=2)


def test_without_faults_messages_arrive_immediately():
    first, second = run_transport(Faults(), 50)
    assert first == second
    assert [(sequence, number) for (_, sequence, _), number in zip(first, numbers(first), strict=True)] == [
        (number, number) for number in range(1, 51)
    ]


def test_losses_differ_between_subscribers_and_leave_gaps():
    first, second = run_transport(Faults(loss=0.2), 1000)
    assert 700 < len(first) < 900
    assert numbers(first) != numbers(second)
    assert numbers(first) == [sequence for _, sequence, _ in first] == sorted(numbers(first))


def test_losses_at_publishing_affect_all_subscribers_and_have_no_sequence():
    first, second = run_transport(Faults(loss=0.2, at="publish"), 1000)
    assert first == second
    assert 700 < len(first) < 900
    assert [sequence for _, sequence, _ in first] == list(range(1, len(first) + 1))
    assert numbers(first) == sorted(set(numbers(first)))


def test_duplicates_at_delivery_have_the_same_sequence():
    first, _ = run_transport(Faults(duplication=1.0), 10)
    assert numbers(first) == [number for number in range(1, 11) for _ in range(2)]
    assert [sequence for _, sequence, _ in first] == numbers(first)


def test_duplicates_at_publishing_are_stored_twice():
    first, _ = run_transport(Faults(duplication=1.0, at="publish"), 10)
    assert numbers(first) == [number for number in range(1, 11) for _ in range(2)]
    assert [sequence for _, sequence, _ in first] == list(range(1, 21))


def test_a_repeated_message_arrives_after_the_given_time():
    first, second = run_transport(Faults().repeat(3, seconds=500.0), 10)
    assert numbers(first) == numbers(second) == [*range(1, 11), 3]
    assert first[-1][0] == pytest.approx(500.2)


def test_delays_keep_the_order_and_stay_within_their_limits():
    first, second = run_transport(Faults(delay=(0.5, 3.0)), 200)
    assert numbers(first) == numbers(second) == list(range(1, 201))
    delays = [time - 0.1 * (number - 1) for (time, _, _), number in zip(first, numbers(first), strict=True)]
    assert min(delays) >= 0.5 - 1e-9
    assert max(delays) <= 3.0 + 1e-9
    assert max(delays) - min(delays) > 1


def test_a_fixed_delay_is_exact():
    first, _ = run_transport(Faults(delay=(2.0, 2.0)), 5, interval=1.0)
    assert [time for time, _, _ in first] == [2.0, 3.0, 4.0, 5.0, 6.0]


def test_reordering_changes_the_order_and_loses_no_message():
    first, second = run_transport(Faults(reordering=0.2), 300)
    for messages in (first, second):
        assert sorted(numbers(messages)) == list(range(1, 301))
        assert numbers(messages) != sorted(numbers(messages))
        assert max(earlier - later for earlier, later in pairwise(numbers(messages))) <= 10
    assert numbers(first) != numbers(second)


@pytest.mark.parametrize("at", ["delivery", "publish"])
def test_corruption_changes_only_bytes_of_the_payload(at):
    clock = VirtualClock()
    broker = LossyTransport(clock, Faults(corruption=0.5, at=at), seed=1)
    inbox = broker.subscribe("a")
    original = bytes(range(64))
    for _ in range(200):
        broker.publish("a", original, {"k": "v"})
    messages = list(inbox)
    assert [message.sequence for message in messages] == list(range(1, 201))
    assert {len(message.payload) for message in messages} == {64}
    assert all(message.headers == {"k": "v"} for message in messages)
    changed = [sum(a != b for a, b in zip(original, message.payload, strict=True)) for message in messages]
    assert set(changed) == {0, 1, 2, 3, 4}
    assert 60 < changed.count(0) < 140
    stored = [message.payload for message in broker.replay("a")]
    assert (set(stored) == {original}) == (at == "delivery")


def test_corruption_does_not_change_an_empty_payload():
    broker = LossyTransport(VirtualClock(), Faults(corruption=1.0))
    inbox = broker.subscribe("a")
    broker.publish("a", b"")
    assert inbox.receive().payload == b""


@given(st.integers(0, 20), st.integers(1, 300))
def test_drop_exactly_loses_the_given_number_of_messages(after, count):
    first, second = run_transport(Faults().drop_exactly(count, after=after), after + count + 3, interval=0.0)
    expected = [*range(1, after + 1), *range(after + count + 1, after + count + 4)]
    assert numbers(first) == numbers(second) == expected


def test_scripted_faults_count_messages_from_their_injection():
    broker = LossyTransport(VirtualClock())
    inbox = broker.subscribe("a")
    for number in range(12):
        if number == 5:
            broker.inject(Faults().drop_exactly(3))
        if number == 10:
            broker.inject(Faults())
        broker.publish("a", bytes([number]))
    assert [message.payload[0] for message in inbox] == [0, 1, 2, 3, 4, 8, 9, 10, 11]
    assert len(list(broker.replay("a"))) == 12


def test_injected_faults_keep_the_order_of_messages_in_flight():
    clock = VirtualClock()
    broker = LossyTransport(clock, Faults(delay=(5, 5)))
    inbox = broker.subscribe("a")
    broker.publish("a", b"slow")
    broker.inject(Faults())
    broker.publish("a", b"quick")
    clock.advance(5)
    assert [message.payload for message in inbox] == [b"slow", b"quick"]


@pytest.mark.parametrize("at", ["delivery", "publish"])
def test_a_partition_loses_messages_that_are_sent_or_would_arrive_in_it(at):
    faults = Faults(delay=(1.0, 1.0), at=at).partition(10.0, 20.0).partition(30.0, 31.0)
    first, _ = run_transport(faults, 40, interval=1.0)
    sent_at = [number - 1 for number in numbers(first)]
    assert sent_at == [t for t in range(40) if not (9 <= t < 20 or 29 <= t < 31)]


@pytest.mark.parametrize(
    "setting",
    [
        {"loss": 1.1},
        {"duplication": -0.1},
        {"corruption": math.nan},
        {"delay": (2.0, 1.0)},
        {"hold": (-1.0, 1.0)},
        {"delay": (0.0, math.inf)},
        {"drops": ((0, 0),)},
        {"repeats": ((0, 1.0),)},
        {"partitions": ((5.0, 5.0),)},
        {"at": "elsewhere"},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_invalid_faults_raise_an_error_with_their_name(setting):
    with pytest.raises(ConfigError, match=next(iter(setting))):
        Faults(**setting)


def test_repr_shows_only_changed_fields():
    assert repr(Faults()) == "Faults()"
    assert repr(Faults(loss=0.1, at="publish")) == "Faults(loss=0.1, at='publish')"
