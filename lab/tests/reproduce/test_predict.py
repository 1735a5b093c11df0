"""The Predict policy: both interpretations of MC.base, the three cases, the repository and its fits."""

from __future__ import annotations

from random import Random

import pytest

from thinwire.dictionaries import dictionary_transfer as travelling
from thinwire.dictionaries.codecs import codec_of
from thinwire.dictionaries.policies import Keep, Prolong, Replace
from thinwire.dictionaries.policies.policy import latest
from thinwire.dictionaries.topology import Topology
from thinwire_lab.reproduce.dictionaries.policies import Predict
from thinwire_lab.reproduce.dictionaries.policies.adaptive import fit_parabola, multiplier
from thinwire_lab.reproduce.dictionaries.policies.predict import ObservedLives, Repository, substrings
from thinwire_lab.reproduce.dictionaries.policies.training_sample import reduction


def messages_of(count: int, tokens: list[bytes], seed: int = 1) -> list[bytes]:
    chance = Random(seed)
    return [
        b'{"event":%d,"from":"%s","to":"%s"}' % (n, chance.choice(tokens), chance.choice(tokens)) for n in range(count)
    ]


def tokens(seed: int, count: int = 40) -> list[bytes]:
    chance = Random(seed)
    return [bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz", k=16)) for _ in range(count)]


def fed(policy: Predict, messages: list[bytes]) -> list[Prolong | Replace]:
    found: list[Prolong | Replace] = []
    for message in messages:
        policy.offer(message)
        if not isinstance(proposal := policy.propose(), Keep):
            found.append(proposal)
    return found


@pytest.mark.parametrize("publishers", [1, 1000])
def test_both_readings_of_the_base(publishers: int) -> None:
    topology, messages = Topology(publishers), messages_of(500, tokens(1))
    (by_words,) = fed(Predict(topology), messages)
    (by_print,) = fed(Predict(topology, reading="printed"), messages)
    assert isinstance(by_words, Replace)
    assert isinstance(by_print, Replace)
    assert by_words.dictionary is not None
    assert by_words.dictionary.facts is not None
    saved = by_words.dictionary.facts.ratio
    mean = sum(map(len, messages)) / len(messages)
    overhead = travelling.cost(by_words.dictionary) * (publishers + 1)
    assert by_words.why["MC.base"] == pytest.approx(1000 * overhead / (mean * 2 * saved / 100))
    assert by_print.why["MC.base"] == pytest.approx(1000 * overhead * (100 - saved) / (100 * mean))


def test_a_change_of_content_is_a_decay_and_takes_more_history() -> None:
    policy = Predict()
    fed(policy, messages_of(500, tokens(1)))
    policy._due = policy._seen + 600
    (decision,) = fed(policy, messages_of(600, tokens(2), seed=2))
    assert isinstance(decision, Replace)
    assert decision.why["case"] == "decayed"
    assert decision.why["history"] == 100
    assert len(policy.lives) == 1


def test_a_steady_stream_is_prolonged_twice_as_long_each_time_until_it_is_old() -> None:
    policy, steady = Predict(), messages_of(500, tokens(1)) * 10
    fed(policy, steady[:500])
    assert policy._dictionary is not None
    policy._expected = policy._average = reduction(latest(steady[:500]), codec_of(policy._dictionary))
    policy._life, policy._due = 500.0, policy._seen + 500
    found = fed(policy, steady[500:])
    assert [one.life for one in found] == [500, 1000, 2000, 4000]
    assert [one.why["case"] for one in found] == ["same"] * 4
    policy._age = 6
    policy._due = policy._seen + 500
    (old,) = fed(policy, steady[:500])
    assert isinstance(old, Replace)
    assert old.why["case"] == "too old"


def test_after_six_lives_they_are_predicted_within_bounds() -> None:
    policy = Predict()
    for n in range(6):
        policy.lives.record((float(n), 10.0), 1000.0 * n)
    policy._features = (3.0, 10.0)
    assert policy._predict(base=2000.0) == pytest.approx(3000.0)
    assert policy._predict(base=1.0) == 64.0
    policy._features = (-9.0, 10.0)
    assert policy._predict(base=6400.0) == 100.0


def test_least_squares_takes_the_flattest_line_where_features_do_not_vary() -> None:
    lives = ObservedLives()
    for life in (100.0, 300.0):
        lives.record((2.0, 2.0), life)
    assert lives.predict((2.0, 2.0)) == pytest.approx(200.0)


def test_the_parabola_is_exact_through_points_of_one() -> None:
    assert fit_parabola([(x, 3 * x * x - x + 2) for x in (0.5, 1, 2, 3)]) == pytest.approx([3.0, -1.0, 2.0])
    assert multiplier([]) == 1
    assert multiplier([(1, 50.0)]) == 2  # flat after the first step


def test_substrings_are_common_best_first_and_none_inside_another() -> None:
    found = substrings(messages_of(60, tokens(1, 3)))
    assert any(b'{"event":' in text or b'"from":"' in text for text in found)
    assert not [(a, b) for a in found for b in found if a != b and a in b]
    assert substrings([]) == {}
    assert substrings([b"abc"]) == {}


def test_the_repository_takes_longer_ones_apart_and_remembers() -> None:
    repository = Repository()
    repository.take({b"abcdfgwxyz": 4.0, b"abcdfgjklp": 4.0})
    repository.take({b"abcdfg": 6.0})
    assert repository.scores == {b"abcdfg": 6.0, b"wxyz": 4.0, b"jklp": 4.0}
    repository.take({b"abcdfg": 6.0, b"wxyz": 4.0, b"jklp": 4.0})
    deviation, mean = repository.features
    assert mean == pytest.approx(14 / 3)
    assert 0 < deviation < 1
