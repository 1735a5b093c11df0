"""Many subscriptions, few classes: what is asked is worked out for those who changed, and comes out the same."""

from hypothesis import given
from hypothesis import strategies as st
from test_channel_plan import ROOMS, asking, topic

from thinwire.services.registry.registry import make_demand_index
from thinwire.services.translator.channel_plan import ChannelDecider
from thinwire.topics.tolerance_budget import budget

WANTED = st.none() | st.builds(
    lambda t, since, emit: {"t": t, "since": since, "emit": emit},
    st.sampled_from([0.5, "0.50", 1.0, 2, 7.5]),
    st.sampled_from([0.0, 1.0, 5.0]),
    st.sampled_from(["all", "changes"]),
)
CHANGES = st.lists(st.lists(st.tuples(st.sampled_from("abcdef"), WANTED), max_size=4), max_size=8)


@given(CHANGES)
def test_a_judge_that_hears_of_changes_says_what_one_says_who_looks_at_all(rounds):
    judge, present = ChannelDecider(), topic()
    before = judge.decide(present)
    for changes in rounds:
        for identity, wanted in changes:
            present.subscriptions.pop(identity, None)
            if wanted is not None:
                present.subscriptions[identity] = asking(identity, **wanted)
        said = judge.decide(present, {identity for identity, _ in changes} | {"rooms"})
        assert list(said.items()) == list(ChannelDecider().decide(present).items())
        if said == before and list(said) == list(before):
            before = said
    assert judge.decide(present, set()) is judge.decide(present, {"nobody"})


@given(CHANGES)
def test_what_is_asked_of_publishers_needs_each_demand_once(rounds):
    index, asked = make_demand_index(), {}
    for identity, wanted in (change for changes in rounds for change in changes):
        asked.pop(identity, None)
        if wanted is not None:
            asked[identity] = asking(identity, **wanted)
        index.update(identity, asked.get(identity))
        demands = [group.oldest for group in index.groups()]
        assert budget(ROOMS, demands) == budget(ROOMS, asked.values())
        assert len(demands) == len({str(one.tolerance["t"]) for one in asked.values()})
