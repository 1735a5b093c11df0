"""Every fault does what it says, only what it says, and again with the same seed."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.clock import VirtualClock
from thinwire.errors import ConfigError
from thinwire.testing.worlds.lossy_transport import MemoryBroker
from thinwire.testing.worlds.transport_faults import Faults

FOREVER = 10_000.0
chances = st.sampled_from([0.0, 0.1, 0.5, 1.0])
ranges = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda pair: tuple(map(float, sorted(pair))))
any_faults = st.builds(
    Faults,
    loss=st.sampled_from([0.0, 0.1, 0.5]),
    duplication=chances,
    reordering=chances,
    corruption=chances,
    delay=ranges,
    hold=ranges,
    at=st.sampled_from(["delivery", "publish"]),
)


def history(faults, count, seed=0, interval=0.1, step=False):
    """What two subscribers get of numbered messages, sent one after the other: (time, sequence, payload)."""
    clock = VirtualClock()
    broker = MemoryBroker(clock, faults, seed)
    inboxes = [broker.subscribe("a"), broker.subscribe(">")]
    seen = [[], []]

    def look():
        for inbox, got in zip(inboxes, seen, strict=True):
            got.extend((clock.now(), message.sequence, message.payload) for message in inbox)

    for number in range(1, count + 1):
        broker.publish("a", number.to_bytes(2, "big"))
        look()
        clock.advance(interval)
        if step:
            broker.step()
    look()
    while (due := broker.next_due()) is not None and due < FOREVER:
        clock.advance(max(due - clock.now(), 0.0))
        look()
    return seen


def numbers(got):
    return [int.from_bytes(payload, "big") for _, _, payload in got]


@given(any_faults, st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_history(faults, seed):
    assert history(faults, 20, seed) == history(faults, 20, seed)


@given(any_faults)
def test_stepping_more_often_changes_nothing(faults):
    assert history(faults, 20, seed=3) == history(faults, 20, seed=3, step=True)


def test_another_seed_gives_another_history():
    faults = Faults(loss=0.5)
    assert history(faults, 100, seed=1) != history(faults, 100, seed=2)


def test_without_faults_everything_arrives_at_once():
    one, other = history(Faults(), 50)
    assert one == other
    assert [(sequence, number) for (_, sequence, _), number in zip(one, numbers(one), strict=True)] == [
        (number, number) for number in range(1, 51)
    ]


def test_losses_differ_between_subscribers_and_leave_gaps():
    one, other = history(Faults(loss=0.2), 1000)
    assert 700 < len(one) < 900
    assert numbers(one) != numbers(other)
    assert numbers(one) == [sequence for _, sequence, _ in one] == sorted(numbers(one))


def test_losses_at_publishing_are_for_everybody_and_have_no_number():
    one, other = history(Faults(loss=0.2, at="publish"), 1000)
    assert one == other
    assert 700 < len(one) < 900
    assert [sequence for _, sequence, _ in one] == list(range(1, len(one) + 1))
    assert numbers(one) == sorted(set(numbers(one)))


def test_duplicates_come_once_more_under_the_same_number():
    one, _ = history(Faults(duplication=1.0), 10)
    assert numbers(one) == [number for number in range(1, 11) for _ in range(2)]
    assert [sequence for _, sequence, _ in one] == numbers(one)


def test_duplicates_at_publishing_are_stored_twice():
    one, _ = history(Faults(duplication=1.0, at="publish"), 10)
    assert numbers(one) == [number for number in range(1, 11) for _ in range(2)]
    assert [sequence for _, sequence, _ in one] == list(range(1, 21))


def test_a_duplicate_may_come_after_a_long_time():
    one, other = history(Faults().repeat(3, seconds=500.0), 10)
    assert numbers(one) == numbers(other) == [*range(1, 11), 3]
    assert one[-1][0] == pytest.approx(500.2)


def test_delays_keep_the_order_and_their_limits():
    one, other = history(Faults(delay=(0.5, 3.0)), 200)
    assert numbers(one) == numbers(other) == list(range(1, 201))
    travelled = [time - 0.1 * (number - 1) for (time, _, _), number in zip(one, numbers(one), strict=True)]
    assert min(travelled) >= 0.5 - 1e-9
    assert max(travelled) <= 3.0 + 1e-9
    assert max(travelled) - min(travelled) > 1


def test_a_fixed_delay_is_exact():
    one, _ = history(Faults(delay=(2.0, 2.0)), 5, interval=1.0)
    assert [time for time, _, _ in one] == [2.0, 3.0, 4.0, 5.0, 6.0]


def test_reordering_lets_later_ones_overtake_and_loses_none():
    one, other = history(Faults(reordering=0.2), 300)
    for got in (one, other):
        assert sorted(numbers(got)) == list(range(1, 301))
        assert numbers(got) != sorted(numbers(got))
        assert max(earlier - later for earlier, later in pairwise(numbers(got))) <= 10
    assert numbers(one) != numbers(other)


@pytest.mark.parametrize("at", ["delivery", "publish"])
def test_corruption_changes_bytes_and_nothing_else(at):
    clock = VirtualClock()
    broker = MemoryBroker(clock, Faults(corruption=0.5, at=at), seed=1)
    inbox = broker.subscribe("a")
    original = bytes(range(64))
    for _ in range(200):
        broker.publish("a", original, {"k": "v"})
    got = list(inbox)
    assert [message.sequence for message in got] == list(range(1, 201))
    assert {len(message.payload) for message in got} == {64}
    assert all(message.headers == {"k": "v"} for message in got)
    flipped = [sum(a != b for a, b in zip(original, message.payload, strict=True)) for message in got]
    assert set(flipped) == {0, 1, 2, 3, 4}
    assert 60 < flipped.count(0) < 140
    stored = [message.payload for message in broker.replay("a")]
    assert (set(stored) == {original}) == (at == "delivery")


def test_nothing_can_be_changed_about_an_empty_payload():
    broker = MemoryBroker(VirtualClock(), Faults(corruption=1.0))
    inbox = broker.subscribe("a")
    broker.publish("a", b"")
    assert inbox.receive().payload == b""


@given(st.integers(0, 20), st.integers(1, 300))
def test_drop_exactly_so_many(after, count):
    one, other = history(Faults().drop_exactly(count, after=after), after + count + 3, interval=0.0)
    expected = [*range(1, after + 1), *range(after + count + 1, after + count + 4)]
    assert numbers(one) == numbers(other) == expected


def test_scripted_faults_count_from_their_injection():
    broker = MemoryBroker(VirtualClock())
    inbox = broker.subscribe("a")
    for number in range(12):
        if number == 5:
            broker.inject(Faults().drop_exactly(3))
        if number == 10:
            broker.inject(Faults())
        broker.publish("a", bytes([number]))
    assert [message.payload[0] for message in inbox] == [0, 1, 2, 3, 4, 8, 9, 10, 11]
    assert len(list(broker.replay("a"))) == 12


def test_injected_faults_do_not_disturb_the_order_of_what_is_on_its_way():
    clock = VirtualClock()
    broker = MemoryBroker(clock, Faults(delay=(5, 5)))
    inbox = broker.subscribe("a")
    broker.publish("a", b"slow")
    broker.inject(Faults())
    broker.publish("a", b"quick")
    clock.advance(5)
    assert [message.payload for message in inbox] == [b"slow", b"quick"]


@pytest.mark.parametrize("at", ["delivery", "publish"])
def test_a_partition_cuts_what_is_sent_and_what_would_arrive(at):
    faults = Faults(delay=(1.0, 1.0), at=at).partition(10.0, 20.0).partition(30.0, 31.0)
    one, _ = history(faults, 40, interval=1.0)
    sent_at = [number - 1 for number in numbers(one)]
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
        {"at": "home"},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_impossible_faults_are_refused_by_name(setting):
    with pytest.raises(ConfigError, match=next(iter(setting))):
        Faults(**setting)


def test_a_description_shows_what_it_changes():
    assert repr(Faults()) == "Faults()"
    assert repr(Faults(loss=0.1, at="publish")) == "Faults(loss=0.1, at='publish')"
