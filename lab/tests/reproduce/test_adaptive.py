"""The adaptive policy: waiting times and growth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from thinwire.dictionaries.dictionary import Dictionary, Facts
from thinwire.dictionaries.policies import Keep, Prolong, Proposal, Replace
from thinwire_lab.reproduce.dictionaries.policies import Adaptive

MESSAGE = b'{"room": "11.1", "temperature": 21.5, "state": "ok"}'


class Trainer:
    """Trains dictionaries of 500 bytes with given savings, and records the requested sizes."""

    def __init__(self, *saved: float) -> None:
        self.saved = list(saved)
        self.requested: list[tuple[int, int]] = []

    def __call__(self, messages: Sequence[bytes], size: int) -> Dictionary:
        self.requested.append((len(messages), size))
        saved = self.saved.pop(0) if len(self.saved) > 1 else self.saved[0]
        return Dictionary(b"?" * 500, "zlib", 6, 100, facts=Facts(len(messages), 1, saved))


def decisions(policy: Adaptive, count: int) -> list[tuple[int, Proposal]]:
    found = []
    for number in range(1, count + 1):
        policy.offer(MESSAGE)
        if not isinstance(proposal := policy.propose(), Keep):
            found.append((number, proposal))
    return found


def test_the_first_comes_after_a_hundred_and_lives_2000_times_its_amortisation() -> None:
    ((at, first),) = decisions(Adaptive(train=Trainer(50.0)), 200)
    assert at == 100
    assert isinstance(first, Replace)
    assert first.life == round(2000 * 500 / (len(MESSAGE) * 0.5))


def test_gains_in_a_row_make_lives_longer_by_their_cube() -> None:
    policy = Adaptive(train=Trainer(99.0))
    found = decisions(policy, 100)
    policy._wait = 0.0  # as if the long first life were over
    found += decisions(policy, 1000)
    lives = [one.life for _, one in found if isinstance(one, Replace)][1:]
    amortised = 500 / (len(MESSAGE) * 0.99)
    assert lives[:3] == [round(10 * amortised * n**3) for n in (1, 2, 3)]


def test_without_a_gain_waits_double_and_history_and_size_grow_in_turn_four_times() -> None:
    trainer = Trainer(1.0)
    policy = Adaptive(train=trainer)
    decisions(policy, 100)
    policy._wait = 10.0
    found = decisions(policy, 2000)
    assert all(isinstance(one, Prolong) for _, one in found)
    assert [later - at for (at, _), (later, _) in pairwise(found)][:4] == [20, 40, 80, 160]
    grown = [one.why["history"] for _, one in found], [one.why["multiplier"] for _, one in found]
    assert grown[0][:5] == [100, 100, 200, 200, 200]
    assert grown[1][:5] == [0.3, 0.5, 0.5, 1, 1]
