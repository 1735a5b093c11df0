"""Decisions about moves: few, worth it, and never of what must stay."""

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.edge.move_decision import EdgeView, MoveDecider
from thinwire.edge.placement_files import read_model
from thinwire.placement import Host, TopicLoad

HOSTS = {name: Host(name, cores=2, count=1) for name in ("h1", "h2", "h3")}


@cache
def model():
    return read_model(None)


def view(at, loads, pinned=(), hosts=HOSTS):
    topics = {name: TopicLoad(name, rate=load / 0.02, interval=0.02) for name, load in loads.items()}
    return EdgeView(topics, hosts, at, frozenset(pinned))


def test_a_host_with_too_much_gives_one_topic_away():
    at = {"a": "h1", "b": "h1", "c": "h1", "d": "h2", "e": "h3"}
    now = view(at, {"a": 0.9, "b": 0.9, "c": 0.6, "d": 0.2, "e": 0.2})
    moves = MoveDecider(model(), 4, now).find_moves({"a"})
    assert len(moves) == 1
    assert set(moves) <= {"a", "b", "c"}


def test_nothing_moves_where_it_would_not_help():
    now = view({"a": "h1", "b": "h2", "c": "h3"}, {"a": 1.5, "b": 0.1, "c": 0.1})
    assert MoveDecider(model(), 4, now).find_moves({"a"}) == {}


def test_a_host_that_should_do_well_is_let_be_until_its_promise_stays_broken():
    now = view({"a": "h1", "b": "h1", "c": "h1", "d": "h2"}, {"a": 0.3, "b": 0.3, "c": 0.3, "d": 0.1})
    assert MoveDecider(model(), 4, now).find_moves({"a"}) == {}
    assert len(MoveDecider(model(), 4, now).find_moves({"a"}, {"a"})) >= 1


def test_topics_of_a_stopped_host_are_spread_and_pinned_topics_wait():
    at = {"a": "h9", "b": "h9", "c": "h9", "d": "h1"}
    now = view(at, {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5}, pinned=["c"])
    moves = MoveDecider(model(), 2, now).find_moves(())
    assert moves.keys() == {"a", "b"}
    assert {moves["a"], moves["b"]} == {"h2", "h3"}
    assert MoveDecider(model(), 2, view(at, {"a": 0.5}, hosts={})).find_moves(()) == {}


def test_a_host_is_spared_only_where_every_promise_has_room():
    light = view({"a": "h1", "b": "h2", "c": "h3"}, {"a": 0.05, "b": 0.06, "c": 0.07})
    assert set(MoveDecider(model(), 4, light).find_savings()) == {"a"}
    heavy = view({"a": "h1", "b": "h2", "c": "h3"}, {"a": 0.97, "b": 0.97, "c": 0.97})
    assert MoveDecider(model(), 4, heavy).find_savings() == {}
    pinned = view({"a": "h1", "b": "h2"}, {"a": 0.05, "b": 0.05}, pinned=["a", "b"])
    assert MoveDecider(model(), 4, pinned).find_savings() == {}


@settings(max_examples=30)
@given(st.data())
def test_moves_name_topics_that_may_go_and_hosts_that_have_room(data):
    names = [f"t{n}" for n in range(data.draw(st.integers(1, 9)))]
    at = {name: data.draw(st.sampled_from(["h1", "h2", "h3", "h9"])) for name in names}
    loads = {name: data.draw(st.floats(0.01, 1.2)) for name in names}
    pinned = data.draw(st.sets(st.sampled_from(names)))
    now = view(at, loads, pinned)
    moves = MoveDecider(model(), 4, now).find_moves(data.draw(st.sets(st.sampled_from(names))))
    assert not moves.keys() & pinned
    assert set(moves.values()) <= HOSTS.keys()
    assert all(at[topic] != host for topic, host in moves.items())
    after = {**at, **moves}
    assert all(after[name] in HOSTS for name in names if name not in pinned)
    for host in HOSTS:
        held = sum(where == host for where in at.values())
        assert sum(where == host for where in after.values()) <= max(4, held)
