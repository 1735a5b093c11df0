"""Many subscriptions, few classes: incremental decisions and demands equal those made from all subscriptions."""

from hypothesis import given
from hypothesis import strategies as st
from test_channel_plan import ROOMS, subscription, topic

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
def test_incremental_decisions_equal_decisions_from_all_subscriptions(rounds):
    decider, present = ChannelDecider(), topic()
    before = decider.decide(present)
    for changes in rounds:
        for identity, wanted in changes:
            present.subscriptions.pop(identity, None)
            if wanted is not None:
                present.subscriptions[identity] = subscription(identity, **wanted)
        decisions = decider.decide(present, {identity for identity, _ in changes} | {"rooms"})
        assert list(decisions.items()) == list(ChannelDecider().decide(present).items())
        if decisions == before and list(decisions) == list(before):
            before = decisions
    assert decider.decide(present, set()) is decider.decide(present, {"nobody"})


@given(CHANGES)
def test_the_tolerance_budget_needs_each_distinct_demand_once(rounds):
    index, subscriptions = make_demand_index(), {}
    for identity, wanted in (change for changes in rounds for change in changes):
        subscriptions.pop(identity, None)
        if wanted is not None:
            subscriptions[identity] = subscription(identity, **wanted)
        index.update(identity, subscriptions.get(identity))
        demands = [group.oldest for group in index.groups()]
        assert budget(ROOMS, demands) == budget(ROOMS, subscriptions.values())
        assert len(demands) == len({str(one.tolerance["t"]) for one in subscriptions.values()})
