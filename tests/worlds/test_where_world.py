"""Worlds in which classes choose events by their values keep their promises, and would notice if they did not."""

import pytest

from thinwire.services.translator.channel import Channel
from thinwire.services.translator.channel_encoder import ChannelEncoder
from thinwire.services.translator.channel_group import WhereGroup
from thinwire.testing.worlds.channel_world import ChannelWorld, main, run_seeds
from thinwire.topics.demand_class import DemandClass

PORTION = 20


@pytest.mark.parametrize("first", range(0, 60, PORTION))
def test_nothing_is_violated(first):
    summary = run_seeds(first, PORTION, processes=1, where=True)
    assert summary.failed == {}
    assert summary.delivered > 0


@pytest.mark.slow
def test_nothing_is_violated_in_many_worlds():
    summary = run_seeds(20_000, 300, where=True)
    assert summary.failed == {}
    assert min(summary.missed, summary.stale, summary.refused) > 0
    assert summary.successions > summary.seeds


def test_classes_choose_die_and_go_on_from_checkpoints():
    worlds = [ChannelWorld(seed, where=True) for seed in range(40)]
    chosen = [one for world in worlds for one in world.classes if one.where is not None]
    assert len(chosen) > 40
    assert len({DemandClass.of(one).where for one in chosen}) > 20
    story = [line for world in worlds for line in world.run().story]
    for happened in ("dies with", "pauses for", "from the checkpoint at", "from checkpoint", "is refused", "moves"):
        assert any(happened in line for line in story), happened


def test_all_else_is_as_it_would_be_without():
    plain, choosing = ChannelWorld(5), ChannelWorld(5, where=True)
    assert plain.schema == choosing.schema
    assert [(one.default_tolerance, one.properties) for one in plain.classes] == [
        (one.default_tolerance, one.properties) for one in choosing.classes
    ]
    assert [one.where for one in plain.classes] == [None] * len(plain.classes)


def test_a_seed_replays_exactly_and_tells_its_story(capsys):
    assert ChannelWorld(7, where=True).run() == ChannelWorld(7, where=True).run()
    assert main(["7", "where"]) == 0
    assert "where='" in capsys.readouterr().out


def violations(seeds=range(40)):
    """What is found in a few worlds, until something is."""
    for seed in seeds:
        found = ChannelWorld(seed, where=True).run().violations
        if found:
            return " ".join(found)
    return ""


def test_an_event_that_matches_and_is_left_out_is_noticed(monkeypatch):
    tell = WhereGroup._send_event

    def forgetful(self, chooser, event, told):
        if event.ordinal % 7:
            tell(self, chooser, event, told)

    monkeypatch.setattr(WhereGroup, "_send_event", forgetful)
    found = violations()
    assert "nothing was told up to" in found or "never came" in found


def test_an_event_that_does_not_match_and_is_told_is_noticed(monkeypatch):
    select = WhereGroup._process_events

    def generous(self, events, told):
        select(self, events, told)
        for event in events[-1:]:
            for chooser in list(self._members.values()):
                if chooser.channel.covers(event.source):
                    self._send_event(chooser, event, told)

    monkeypatch.setattr(WhereGroup, "_process_events", generous)
    assert violations()


def test_a_successor_that_repeats_half_a_message_is_noticed(monkeypatch):
    begin = Channel.begin

    def careless(self, decoder_state, position, *others):
        begin(self, decoder_state, position._replace(within=0), *others)

    monkeypatch.setattr(Channel, "begin", careless)
    assert violations(range(120))


def test_numbers_that_are_not_left_out_are_noticed(monkeypatch):
    monkeypatch.setattr(ChannelEncoder, "encode", lambda self, event, now: self.stream.publish(event, now))
    assert violations()
