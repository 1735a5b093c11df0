"""A dictionary is measured on messages outside its training set and contains nothing confidential."""

from __future__ import annotations

import json
from itertools import islice
from random import Random

import pytest

from thinwire.dictionaries import Dictionary, choose, codec_of, train, without_confidential
from thinwire.dictionaries.codecs import Deflate
from thinwire.dictionaries.training import COSTS, LATEST, SEARCHED, TrainingMethod, build, ratio
from thinwire.schema import Property, Schema
from thinwire_lab.streams.generated_streams import taxi_csv


def _rooms(count: int, seed: int = 1) -> list[bytes]:
    chance = Random(seed)
    return [
        b'{"sensor":"T%d","room":"11.%d","temperature":%d.%d}'
        % (chance.randrange(40), chance.randrange(13), chance.randrange(15, 30), chance.randrange(10))
        for _ in range(count)
    ]


ROOMS = _rooms(2000)


def _saved(dictionary: Dictionary | None, messages: list[bytes]) -> float:
    assert dictionary is not None
    codec = codec_of(dictionary)
    return 100 * (1 - sum(len(codec.pack(m)) + 1 for m in messages) / sum(map(len, messages)))


@pytest.mark.parametrize("codec", ["zlib", "zstd"])
def test_the_stated_saving_matches_the_saving_on_later_messages(codec: str) -> None:
    trained = train(ROOMS[:1200], 2048, codec=codec)
    assert trained is not None
    assert trained.facts is not None
    assert len(trained.content) <= 2048
    assert (trained.facts.messages, trained.facts.bytes) == (1200, sum(map(len, ROOMS[:1200])))
    assert trained.facts.ratio == pytest.approx(_saved(trained, ROOMS[1200:]), abs=3)
    assert trained.facts.ratio > 50


def test_the_later_part_judges() -> None:
    """A stream that becomes something else: what was learned first is judged by what came after."""
    changed = ROOMS[:700] + [b"%032x" % Random(n).getrandbits(128) for n in range(300)]
    trained = train(changed, 2048)
    assert trained is not None
    assert trained.facts is not None
    assert trained.facts.ratio < 20


@pytest.mark.parametrize("messages", [[], [b""] * 50, [b"x"] * 50, ROOMS[:5]], ids=["none", "empty", "short", "few"])
def test_too_little_makes_none(messages: list[bytes]) -> None:
    assert train(messages, 2048) is None
    assert choose(messages, sizes=[2048], budget=10) is None


def test_the_same_messages_give_the_same_dictionary() -> None:
    assert train(ROOMS[:400], 1024) == train(ROOMS[:400], 1024)
    assert choose(ROOMS[:800], sizes=[1024], budget=1) == choose(ROOMS[:800], sizes=[1024], budget=1)


def test_the_choice_is_the_smallest_within_the_budget() -> None:
    learned, later = ROOMS[:1500], ROOMS[1500:]
    fast, dense = choose(learned, sizes=[1024, 4096], budget=0.25), choose(learned, sizes=[1024, 4096], budget=3)
    assert fast is not None
    assert dense is not None
    assert COSTS[fast.codec, fast.level] <= 0.25
    assert COSTS[dense.codec, dense.level] <= 3
    assert _saved(dense, later) >= _saved(fast, later) - 0.5
    assert _saved(fast, later) > 30 > 100 * (1 - sum(len(Deflate().pack(m)) for m in later) / sum(map(len, later)))


def test_trained_dictionaries_pack_about_as_well_as_those_of_the_library() -> None:
    trips = list(islice(taxi_csv(), 900))
    chosen = choose(trips[:600], sizes=[4096], budget=0.25)
    stock = build(trips[:600], TrainingMethod("zstd", 3, 4096, SEARCHED))
    assert chosen is not None
    assert chosen.facts is not None
    assert _saved(chosen, trips[600:]) >= _saved(stock, trips[600:]) - 0.5
    assert chosen.facts.ratio == pytest.approx(_saved(chosen, trips[600:]), abs=4), "measured on unseen messages"


def test_a_size_that_the_sample_is_too_small_for_is_left_out() -> None:
    chosen = choose(ROOMS[:1000], sizes=[1024, 65536], budget=0.25)
    assert chosen is not None
    assert len(chosen.content) <= 1024
    assert choose(ROOMS[:100], sizes=[65536], budget=0.25) is None


def test_the_tables_of_zstd_are_not_part_of_what_zlib_shares() -> None:
    content = build(ROOMS, TrainingMethod("zlib", 9, 2048, 512))
    assert content is not None
    assert content.content.isascii()
    assert b'"temperature":' in content.content[-200:]


def test_the_latest_messages_end_the_dictionary_made_of_them() -> None:
    latest = build(ROOMS, TrainingMethod("zlib", 9, 500, LATEST))
    assert latest is not None
    assert latest.content == b"".join(ROOMS)[-500:]


def test_no_messages_save_nothing() -> None:
    assert ratio(Dictionary(b"abc" * 99, "zlib", 6, 64), []) == 0.0


def test_confidential_values_never_enter_a_dictionary() -> None:
    schema = Schema(
        "clinic",
        [
            Property("time", "integer", role="header"),
            Property("ward", "string", role="dimension"),
            Property("pulse", "integer"),
            Property("diagnosis", "string", confidential=True),
        ],
    )
    marked = "NEUROBORRELIOSIS-MARKED-SECRET"
    events = [
        {"time": n, "ward": f"W{n % 7}", "pulse": 60 + n % 40, "diagnosis": f"{marked}-{n % 3}"} for n in range(900)
    ]
    open_, shared = ([json.dumps(e).encode() for e in es] for es in (events, without_confidential(events, schema)))
    assert marked[:8].encode() in _content(open_, "zstd"), "the test must be able to find the marked value"
    for codec in ("zlib", "zstd"):
        content = _content(shared, codec)
        assert b"diagnosis" not in content
        assert not any(marked[at : at + 6].encode() in content for at in range(len(marked) - 6))


def _content(messages: list[bytes], codec: str) -> bytes:
    trained = train(messages, 2048, codec=codec)
    assert trained is not None
    return trained.content
