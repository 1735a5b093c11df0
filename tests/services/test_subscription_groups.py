"""Many subscriptions, few classes: what is asked is worked out for those who changed, and comes out the same."""

from hypothesis import given
from hypothesis import strategies as st
from test_translator_plan import ROOMS, asking, topic

from thinwire.services.registry.registry_state import DistinctDemands
from thinwire.services.translator.subscription_groups import ChannelDecider
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
    before = judge.verdicts(present)
    for changes in rounds:
        for identity, wanted in changes:
            present.subscriptions.pop(identity, None)
            if wanted is not None:
                present.subscriptions[identity] = asking(identity, **wanted)
        said = judge.verdicts(present, {identity for identity, _ in changes} | {"rooms"})
        assert list(said.items()) == list(ChannelDecider().verdicts(present).items())
        if said == before and list(said) == list(before):
            before = said
    assert judge.verdicts(present, set()) is judge.verdicts(present, {"nobody"})


@given(CHANGES)
def test_what_is_asked_of_publishers_needs_each_demand_once(rounds):
    voices, asked = DistinctDemands(), {}
    for identity, wanted in (change for changes in rounds for change in changes):
        before = asked.pop(identity, None)
        if wanted is not None:
            asked[identity] = asking(identity, **wanted)
        voices.update_subscription(before, asked.get(identity))
        assert budget(ROOMS, voices.list_demands()) == budget(ROOMS, asked.values())
        assert len(voices.list_demands()) == len({str(one.tolerance["t"]) for one in asked.values()})
