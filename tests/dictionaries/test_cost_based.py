"""Our policy: a dictionary exactly where it pays."""

from __future__ import annotations

from itertools import cycle
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.dictionaries.codecs import codec_of
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.policies import CostBased, Keep, Proposal, Replace
from thinwire.dictionaries.policies import candidate_trial as trials
from thinwire.dictionaries.policies.candidate_trial import (
    FORMS,
    GROWING,
    LADDER,
    NEAR,
    CandidateTrial,
    TrialOutcome,
    climb,
)
from thinwire.dictionaries.policies.lifetime_estimate import ENOUGH, Decay, DictionaryKind, Epochs
from thinwire.dictionaries.policies.policy import DEFLATE, StreamProgress
from thinwire.dictionaries.topology import ONE_TO_ONE, Topology
from thinwire.dictionaries.training import train


def words(seed: int, count: int = 60) -> list[bytes]:
    chance = Random(seed)
    return [bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz", k=18)) for _ in range(count)]


def said(count: int, of: list[bytes], seed: int = 1) -> list[bytes]:
    chance = Random(seed)
    form = b'{"event":%d,"from":"%s","to":"%s","about":"%s"}'
    return [form % (n, chance.choice(of), chance.choice(of), chance.choice(of)) for n in range(count)]


def fed(policy: CostBased, messages: list[bytes]) -> list[Proposal]:
    found: list[Proposal] = []
    for at in range(0, len(messages), 16):
        policy.offer_all(messages[at : at + 16])
        if not isinstance(proposal := policy.propose(), Keep):
            found.append(proposal)
    return found


def made(found: list[Proposal]) -> list[Replace]:
    return [one for one in found if isinstance(one, Replace) and one.dictionary is not None]


def test_every_replacement_saves_more_than_it_costs() -> None:
    found = made(fed(CostBased(ONE_TO_ONE), said(3000, words(1))))
    assert found
    assert all(float(one.why["saving"]) > float(one.why["cost"]) for one in found)


def test_a_stream_too_short_for_so_many_receivers_gets_none() -> None:
    messages = said(3000, words(1))
    assert not made(fed(CostBased(Topology(100_000)), messages))
    assert not made(fed(CostBased(Topology(100_000), expected=3000), messages))


def test_a_stream_of_unknown_length_is_expected_to_go_on_for_twice_its_length() -> None:
    first, *_ = made(fed(CostBased(ONE_TO_ONE), said(200, words(1))))
    assert float(first.why["expected life"]) == 2 * float(first.why["seen"])


def test_the_more_receivers_the_later() -> None:
    messages = said(12_000, words(1))
    one, few, many = (made(fed(CostBased(Topology(count)), messages))[0] for count in (1, 100, 1000))
    assert float(one.why["seen"]) < float(few.why["seen"]) < float(many.why["seen"])


def test_knowing_the_length_spreads_early_what_pays_in_the_end() -> None:
    messages = said(2100, words(1))
    blind, told = CostBased(Topology(3000)), CostBased(Topology(3000), expected=1_000_000)
    assert not made(fed(blind, messages))
    assert len(made(fed(told, messages))) == 1


def test_decay_brings_a_new_dictionary() -> None:
    policy = CostBased(ONE_TO_ONE)
    fed(policy, said(5000, words(1)))
    before = policy._dictionary
    after = made(fed(policy, said(15_000, words(2), seed=2)))
    assert after
    assert policy._dictionary is not before


def test_a_steady_stream_is_left_alone() -> None:
    policy = CostBased(ONE_TO_ONE)
    fed(policy, said(6000, words(1)))
    assert len(made(fed(policy, said(10_000, words(1), seed=2)))) <= 1


def test_where_nothing_repeats_there_is_no_dictionary() -> None:
    chance = Random(3)
    noise = [chance.randbytes(120) for _ in range(2000)]
    assert not made(fed(CostBased(ONE_TO_ONE), noise))


class Longer:
    """A codec that has nothing to say about these messages."""

    name = "longer"

    def pack(self, message: bytes) -> bytes:
        return message + b"."

    def unpack(self, packed: bytes, limit: int) -> bytes:
        return packed[:-1]


def test_a_dictionary_worse_than_deflate_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = CostBased(ONE_TO_ONE)
    fed(policy, said(3000, words(1)))
    assert policy._dictionary is not None
    policy._codec = Longer()
    monkeypatch.setattr(trials, "build", lambda messages, method: None)
    found = [one for one in fed(policy, said(9000, words(1))) if isinstance(one, Replace)]
    assert policy._dictionary is None
    assert [one.dictionary for one in found] == [None]
    assert float(found[-1].why["packed now"]) >= float(found[-1].why["deflated"])


@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=8), st.integers(256, 100_000))
def test_a_climb_never_ends_below_where_it_began(worth: list[float | None], start: int) -> None:
    sizes = list(LADDER[: len(worth)])
    best = climb(sizes, start, dict(zip(sizes, worth, strict=True)).get)
    begun = max((size for size in sizes if size <= start), default=sizes[0])
    first = worth[sizes.index(begun)]
    if best is None:
        assert first is None
    elif first is not None:
        assert (worth[sizes.index(best)] or 0.0) >= first


def test_a_dictionary_grows_as_far_as_it_pays_in_few_trainings() -> None:
    asked: list[int] = []

    def worth(size: int) -> float:
        asked.append(size)
        return -abs(size - 24_576) + 30_000

    assert climb(LADDER, 1536, worth, GROWING + NEAR) == 24_576
    assert len(asked) <= 6


def test_where_no_larger_dictionary_pays_two_trainings_say_so() -> None:
    asked: list[int] = []

    def worth(size: int) -> float:
        asked.append(size)
        return -float(size)

    assert climb(LADDER, 1536, worth, GROWING) == 1536
    assert asked == [6144, 1536]


def test_another_dictionary_is_credited_with_less_where_the_last_one_faded() -> None:
    messages, old = said(800, words(1)), words(2)
    parent = train(said(400, old), 1024)
    assert parent is not None
    fresh, wary = (
        CandidateTrial(messages, codec_of(parent), ONE_TO_ONE, 1000, parent, faded=faded) for faded in (0.0, 10.0)
    )
    assert fresh.worth(2048) is not None
    assert wary.worth(2048) is not None
    assert fresh.outcomes[2048].saving - wary.outcomes[2048].saving == pytest.approx(10.0 * ONE_TO_ONE.copies * 1000)


def test_a_sketch_says_about_what_training_gives() -> None:
    messages = said(800, words(1))
    trial, trained = CandidateTrial(messages, DEFLATE, ONE_TO_ONE, 1000, None), train(messages, 1024)
    assert trial.worth(1024) is not None
    drawn, done = trial.outcomes[1024].dictionary, trial.finished(1024)
    assert trained is not None
    assert done is not None
    assert trained.facts is not None
    assert drawn.facts is not None
    assert drawn.facts.ratio == pytest.approx(trained.facts.ratio, abs=5)
    assert (done.dictionary.facts, len(done.dictionary.content) <= 1024) == (drawn.facts, True)
    assert CandidateTrial(messages[:4], DEFLATE, ONE_TO_ONE, 1000, None).worth(256) is None


def test_of_several_tries_the_one_that_packs_best_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = said(800, words(1))
    useful = b"".join(messages[:10])
    contents = cycle([b"?" * 512, useful, b"!" * 512, b"#" * 512])
    monkeypatch.setattr(trials, "build", lambda messages, method: Dictionary(next(contents), "zstd", 3, 200))
    trial = CandidateTrial(messages, DEFLATE, ONE_TO_ONE, 1000, None, forms=[("zstd", 3)])
    trial.worth(1024)
    assert trial.outcomes[1024].dictionary.content == useful


def test_a_form_is_chosen_by_what_it_is_worth() -> None:
    messages = said(800, words(1))
    one, several = (
        CandidateTrial(messages, DEFLATE, ONE_TO_ONE, 1000, None, forms=forms) for forms in (FORMS[:1], FORMS)
    )
    assert (several.worth(8192) or 0.0) > (one.worth(8192) or 0.0)
    assert several.outcomes[8192].dictionary.codec == "brief"


def test_what_pays_before_long_is_waited_for() -> None:
    trial = CandidateTrial(said(800, words(1)), DEFLATE, Topology(100), 1000, None, ahead=10)
    made = train(said(800, words(1)), 1024)
    assert made is not None
    pays = TrialOutcome(made, 512, size=100, gain=10.0, saving=110.0, cost=100.0)
    better = TrialOutcome(made, 512, size=200, gain=15.0, saving=165.0, cost=200.0)
    one_day = TrialOutcome(made, 512, size=500, gain=20.0, saving=220.0, cost=500.0)
    assert trial._worth(better) > trial._worth(pays) > trial._worth(one_day)


def test_after_a_dictionary_that_faded_fast_the_next_is_like_the_one_that_cost_less() -> None:
    plain, large = DictionaryKind(256, ("zstd", 3)), DictionaryKind(8192, ("brief", 6))
    epochs = Epochs()
    for kind, packed, cost in ((plain, 66, 250_000.0), (large, 55, 2_900_000.0)):
        for _ in range(ENOUGH):
            epochs.observe(118, packed)
        epochs.end(kind, age=100_000, cost=cost, copies=2)
    policy = CostBased(Topology(1000))
    policy._epochs = epochs
    assert epochs.settled
    assert policy._forms(decayed=True) == [plain.form]
    assert len(policy._forms(decayed=False)) == len(FORMS)
    trial = CandidateTrial(said(800, words(1)), DEFLATE, ONE_TO_ONE, 1000, None)
    assert policy._similar_size(plain.size, LADDER, trial) == plain.size


def test_a_budget_leaves_slow_forms_out() -> None:
    found = made(fed(CostBased(ONE_TO_ONE, budget=0.25), said(3000, words(1))))
    assert {one.dictionary.codec for one in found if one.dictionary is not None} == {"zstd"}


def test_messages_too_large_to_keep_are_left_to_deflate() -> None:
    policy = CostBased(ONE_TO_ONE)
    large = bytes(600_000)
    for _ in range(70):
        policy.offer(large)
    assert isinstance(policy.propose(), Keep)


def test_half_as_many_messages_are_looked_at_while_nothing_speaks_for_decay() -> None:
    def looked_at(calm: bool) -> int:
        pace, count = StreamProgress(), 0
        pace.calm = calm
        while pace.next < 100_000:
            pace.seen = pace.next
            pace.advance()
            count += 1
        return count

    assert 0.4 < looked_at(calm=True) / looked_at(calm=False) < 0.6


def test_a_steady_dictionary_is_judged_calmly_and_a_losing_one_is_not() -> None:
    chance, decay = Random(1), Decay()
    assert not decay.calm
    calm = 0
    for _ in range(2000):
        decay.observe(200, chance.randrange(40, 60))
        calm += decay.calm
    assert calm > 1000
    for _ in range(60):
        decay.observe(200, chance.randrange(50, 70))
    assert not decay.calm


def test_chance_is_hardly_ever_taken_for_decay() -> None:
    alarms = 0
    for seed in range(30):
        chance, decay = Random(seed), Decay()
        for _ in range(1000):
            decay.observe(200, chance.randrange(40, 60))
            alarms += decay.lost > 0
    assert alarms < 0.03 * 30 * 1000
