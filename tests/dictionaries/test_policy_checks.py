"""Requirements of every policy: one decision at a time, with a reason, bounded memory, any bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from thinwire.dictionaries.codecs import codec_of
from thinwire.dictionaries.policies import CostBased, DictionaryPolicy, Keep, Proposal, Replace
from thinwire.dictionaries.policies.policy import LIMIT
from thinwire.dictionaries.topology import Topology
from thinwire_lab.reproduce.dictionaries.policies import Adaptive, FixedRate, Predict, SingleDict

POLICIES: dict[str, Callable[[], DictionaryPolicy]] = {
    "adaptive": lambda: Adaptive(gain=1),
    "fixed rate": lambda: FixedRate(every=300),
    "ours": lambda: CostBased(Topology(1)),
    "predict": lambda: Predict(Topology(1)),
    "single": lambda: SingleDict(multiplier=8, first=400),
}
every_policy = pytest.mark.parametrize("name", sorted(POLICIES))


def rooms(count: int, start: int = 0) -> list[bytes]:
    form = b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.%d, "state": "ok"}'
    return [form % (n % 9, n % 7, n * 7 % 31, n % 10) for n in range(start, start + count)]


def decisions(policy: DictionaryPolicy, messages: Sequence[bytes]) -> list[Proposal]:
    found = []
    for message in messages:
        policy.offer(message)
        if not isinstance(proposal := policy.propose(), Keep):
            found.append(proposal)
            assert isinstance(policy.propose(), Keep), "a decision is handed out once"
    return found


@every_policy
def test_a_proposed_dictionary_unpacks_messages_and_has_a_reason(name: str) -> None:
    found = decisions(POLICIES[name](), rooms(700))
    made = [one.dictionary for one in found if isinstance(one, Replace) and one.dictionary]
    assert made
    assert all(one.why and json.dumps(dict(one.why)) for one in found)
    codec = codec_of(made[-1])
    assert [codec.unpack(codec.pack(message), 100) for message in rooms(50, 700)] == rooms(50, 700)


@every_policy
def test_several_messages_are_the_same_as_one_by_one(name: str) -> None:
    one, several = POLICIES[name](), POLICIES[name]()
    for at in range(0, 704, 16):
        for message in rooms(16, at):
            one.offer(message)
        several.offer_all(rooms(16, at))
        assert one.propose() == several.propose()


@every_policy
def test_empty_and_large_and_binary_messages_are_taken(name: str) -> None:
    policy = POLICIES[name]()
    odd = [b"", bytes(range(256)), b"\xff" * 300, b"", b"x"]
    decisions(policy, odd * 120)


@every_policy
def test_memory_is_bounded(name: str) -> None:
    policy: Any = POLICIES[name]()
    large = bytes(1 << 20)
    for _ in range(40):
        policy.offer(large)
    assert policy._history.bytes <= LIMIT
    policy.offer(bytes(LIMIT + 1))
    assert policy._history.bytes <= LIMIT


def test_only_those_that_know_the_topology_hold_back() -> None:
    found = decisions(CostBased(Topology(10_000)), rooms(700))
    assert not [one for one in found if isinstance(one, Replace)]
    assert [one for one in decisions(Adaptive(), rooms(700)) if isinstance(one, Replace)]
