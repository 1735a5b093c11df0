"""The cost-based policy: a dictionary exactly where it saves more than it costs."""

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


def names(seed: int, count: int = 60) -> list[bytes]:
    chance = Random(seed)
    return [bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz", k=18)) for _ in range(count)]


def messages_of(count: int, vocabulary: list[bytes], seed: int = 1) -> list[bytes]:
    chance = Random(seed)
    form = b'{"event":%d,"from":"%s","to":"%s","about":"%s"}'
    return [form % (n, *(chance.choice(vocabulary) for _ in range(3))) for n in range(count)]


def feed(policy: CostBased, messages: list[bytes]) -> list[Proposal]:
    found: list[Proposal] = []
    for at in range(0, len(messages), 16):
        policy.offer_all(messages[at : at + 16])
        if not isinstance(proposal := policy.propose(), Keep):
            found.append(proposal)
    return found


def replacements(found: list[Proposal]) -> list[Replace]:
    return [one for one in found if isinstance(one, Replace) and one.dictionary is not None]


def test_every_replacement_saves_more_than_it_costs() -> None:
    found = replacements(feed(CostBased(ONE_TO_ONE), messages_of(3000, names(1))))
    assert found
    assert all(float(one.why["saving"]) > float(one.why["cost"]) for one in found)


def test_a_stream_too_short_for_so_many_receivers_gets_none() -> None:
    messages = messages_of(3000, names(1))
    assert not replacements(feed(CostBased(Topology(100_000)), messages))
    assert not replacements(feed(CostBased(Topology(100_000), expected=3000), messages))


def test_a_stream_of_unknown_length_is_expected_to_last_twice_as_long_again() -> None:
    first, *_ = replacements(feed(CostBased(ONE_TO_ONE), messages_of(200, names(1))))
    assert float(first.why["expected life"]) == 2 * float(first.why["seen"])


def test_more_receivers_delay_the_first_dictionary() -> None:
    messages = messages_of(12_000, names(1))
    one, few, many = (replacements(feed(CostBased(Topology(count)), messages))[0] for count in (1, 100, 1000))
    assert float(one.why["seen"]) < float(few.why["seen"]) < float(many.why["seen"])


def test_a_known_length_allows_an_early_dictionary() -> None:
    messages = messages_of(2100, names(1))
    uninformed, informed = CostBased(Topology(3000)), CostBased(Topology(3000), expected=1_000_000)
    assert not replacements(feed(uninformed, messages))
    assert len(replacements(feed(informed, messages))) == 1


def test_decay_leads_to_a_new_dictionary() -> None:
    policy = CostBased(ONE_TO_ONE)
    feed(policy, messages_of(5000, names(1)))
    before = policy._dictionary
    after = replacements(feed(policy, messages_of(15_000, names(2), seed=2)))
    assert after
    assert policy._dictionary is not before


def test_a_steady_stream_keeps_its_dictionary() -> None:
    policy = CostBased(ONE_TO_ONE)
    feed(policy, messages_of(6000, names(1)))
    assert len(replacements(feed(policy, messages_of(10_000, names(1), seed=2)))) <= 1


def test_incompressible_messages_get_no_dictionary() -> None:
    chance = Random(3)
    noise = [chance.randbytes(120) for _ in range(2000)]
    assert not replacements(feed(CostBased(ONE_TO_ONE), noise))


class Longer:
    """A codec that makes every message longer."""

    name = "longer"

    def pack(self, message: bytes) -> bytes:
        return message + b"."

    def unpack(self, packed: bytes, limit: int) -> bytes:
        return packed[:-1]


def test_a_dictionary_worse_than_deflate_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = CostBased(ONE_TO_ONE)
    feed(policy, messages_of(3000, names(1)))
    assert policy._dictionary is not None
    policy._codec = Longer()
    monkeypatch.setattr(trials, "build", lambda messages, method: None)
    found = [one for one in feed(policy, messages_of(9000, names(1))) if isinstance(one, Replace)]
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
    sizes: list[int] = []

    def worth(size: int) -> float:
        sizes.append(size)
        return -abs(size - 24_576) + 30_000

    assert climb(LADDER, 1536, worth, GROWING + NEAR) == 24_576
    assert len(sizes) <= 6


def test_two_trainings_suffice_if_no_larger_dictionary_pays() -> None:
    sizes: list[int] = []

    def worth(size: int) -> float:
        sizes.append(size)
        return -float(size)

    assert climb(LADDER, 1536, worth, GROWING) == 1536
    assert sizes == [6144, 1536]


def test_the_worth_of_a_candidate_is_reduced_if_the_last_dictionary_decayed() -> None:
    messages, old = messages_of(800, names(1)), names(2)
    parent = train(messages_of(400, old), 1024)
    assert parent is not None
    fresh, wary = (
        CandidateTrial(messages, codec_of(parent), ONE_TO_ONE, 1000, parent, faded=faded) for faded in (0.0, 10.0)
    )
    assert fresh.worth(2048) is not None
    assert wary.worth(2048) is not None
    assert fresh.outcomes[2048].saving - wary.outcomes[2048].saving == pytest.approx(10.0 * ONE_TO_ONE.copies * 1000)


def test_a_sketch_saves_about_as_much_as_training() -> None:
    messages = messages_of(800, names(1))
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


def test_the_best_of_several_candidates_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = messages_of(800, names(1))
    useful = b"".join(messages[:10])
    contents = cycle([b"?" * 512, useful, b"!" * 512, b"#" * 512])
    monkeypatch.setattr(trials, "build", lambda messages, method: Dictionary(next(contents), "zstd", 3, 200))
    trial = CandidateTrial(messages, DEFLATE, ONE_TO_ONE, 1000, None, forms=[("zstd", 3)])
    trial.worth(1024)
    assert trial.outcomes[1024].dictionary.content == useful


def test_the_form_with_the_highest_worth_is_chosen() -> None:
    messages = messages_of(800, names(1))
    one, several = (
        CandidateTrial(messages, DEFLATE, ONE_TO_ONE, 1000, None, forms=forms) for forms in (FORMS[:1], FORMS)
    )
    assert (several.worth(8192) or 0.0) > (one.worth(8192) or 0.0)
    assert several.outcomes[8192].dictionary.codec == "brief"


def test_a_candidate_that_pays_soon_is_preferred() -> None:
    trial = CandidateTrial(messages_of(800, names(1)), DEFLATE, Topology(100), 1000, None, ahead=10)
    dictionary = train(messages_of(800, names(1)), 1024)
    assert dictionary is not None
    pays = TrialOutcome(dictionary, 512, size=100, gain=10.0, saving=110.0, cost=100.0)
    better = TrialOutcome(dictionary, 512, size=200, gain=15.0, saving=165.0, cost=200.0)
    one_day = TrialOutcome(dictionary, 512, size=500, gain=20.0, saving=220.0, cost=500.0)
    assert trial._worth(better) > trial._worth(pays) > trial._worth(one_day)


def test_after_fast_decay_the_cheaper_kind_is_chosen() -> None:
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
    trial = CandidateTrial(messages_of(800, names(1)), DEFLATE, ONE_TO_ONE, 1000, None)
    assert policy._similar_size(plain.size, LADDER, trial) == plain.size


def test_a_budget_excludes_slow_forms() -> None:
    found = replacements(feed(CostBased(ONE_TO_ONE, budget=0.25), messages_of(3000, names(1))))
    assert {one.dictionary.codec for one in found if one.dictionary is not None} == {"zstd"}


def test_messages_too_large_to_keep_are_left_to_deflate() -> None:
    policy = CostBased(ONE_TO_ONE)
    large = bytes(600_000)
    for _ in range(70):
        policy.offer(large)
    assert isinstance(policy.propose(), Keep)


def test_half_as_many_messages_are_examined_without_signs_of_decay() -> None:
    def count_examined(calm: bool) -> int:
        progress, count = StreamProgress(), 0
        progress.calm = calm
        while progress.next < 100_000:
            progress.seen = progress.next
            progress.advance()
            count += 1
        return count

    assert 0.4 < count_examined(calm=True) / count_examined(calm=False) < 0.6


def test_a_steady_dictionary_is_calm_and_a_decaying_one_is_not() -> None:
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


def test_random_variation_is_rarely_taken_for_decay() -> None:
    alarms = 0
    for seed in range(30):
        chance, decay = Random(seed), Decay()
        for _ in range(1000):
            decay.observe(200, chance.randrange(40, 60))
            alarms += decay.lost > 0
    assert alarms < 0.03 * 30 * 1000
