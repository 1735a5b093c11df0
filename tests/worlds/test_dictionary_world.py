"""The world of dictionaries keeps its promises under every seed tried, and would notice if it did not."""

import pytest

from thinwire.codec.dictionary_bindings import Bindings, Packer
from thinwire.testing.worlds import dictionary_world as dictionary_world_runs
from thinwire.testing.worlds import dictionary_world_sampler as dictionary_world_sampling
from thinwire.testing.worlds.dictionary_world import DictionaryWorld, DictionaryWorldSummary, main, run_seeds
from thinwire.wire import Binding
from thinwire_lab.bench import find_benchmarks
from thinwire_lab.bench.benchmark import Setting

PORTION = 20


@pytest.mark.parametrize("first", range(0, 60, PORTION))
def test_nothing_is_violated(first):
    summary = run_seeds(first, PORTION, processes=1)
    assert summary.failed == {}
    assert min(summary.packed, summary.spread, summary.delivered) > 0


@pytest.mark.slow
def test_nothing_is_violated_in_many_worlds():
    summary = run_seeds(10_000, 250)
    assert summary.failed == {}
    assert min(summary.missed, summary.refused) > 0


def test_a_seed_replays_exactly():
    assert DictionaryWorld(3).run() == DictionaryWorld(3).run()


def test_the_story_of_a_seed_can_be_told(capsys):
    assert main(["7"]) == 0
    told = capsys.readouterr().out
    assert "p0 starts life 1" in told
    assert "takes over at version" in told
    assert "nothing was violated" in told


def test_the_bar_points_at_a_broken_seed(monkeypatch):
    monkeypatch.setattr(
        dictionary_world_runs, "run_seeds", lambda *_, **__: DictionaryWorldSummary(3, failed={2: ["r0 was given"]})
    )
    [world_benchmark] = [
        benchmark for benchmark in find_benchmarks("dictionaries") if benchmark.name == "world of dictionaries"
    ]
    (row,) = world_benchmark.measure(Setting(quick=True))
    assert (row.value, row.holds) == (1, False)
    assert row.note == "replay: python -m thinwire.testing.worlds.dictionary_world 2"


def violations(seeds=range(60)):
    """What is found in a few worlds, until something is."""
    for seed in seeds:
        found = DictionaryWorld(seed).run().violations
        if found:
            return " ".join(found)
    return ""


def test_a_publisher_that_goes_on_after_the_end_is_noticed(monkeypatch):
    monkeypatch.setattr(Packer, "expire", lambda self, now: None)
    assert "has expired" in violations()


def test_a_slot_that_keeps_its_first_meaning_is_noticed(monkeypatch):
    def bind(self, binding: Binding):
        self._bound.setdefault(binding.slot, binding)

    monkeypatch.setattr(Bindings, "bind", bind)
    monkeypatch.setattr(Bindings, "clear", lambda self: None)
    assert violations()


def test_a_janitor_in_a_hurry_is_noticed(monkeypatch):
    def all_but_those_in_use(kept, in_use, oldest):
        used = {said.hash for said in in_use.dictionaries}
        return [said.hash for said in kept.dictionaries if said.hash not in used]

    monkeypatch.setattr(dictionary_world_sampling, "find_unneeded", all_but_those_in_use)
    assert "could not have a dictionary" in violations()
