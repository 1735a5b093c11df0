"""Channel plan: a channel opens immediately, closes after a grace period, and their number is limited."""

from thinwire.codec import Demand
from thinwire.schema import Property, Schema
from thinwire.services.registry.document_cache import TopicRecord
from thinwire.services.translator.channel_plan import ChannelDecider, ChannelPlan
from thinwire.topics.demand_class import MAX_CLASSES
from thinwire.topics.names import DocumentKind, RegistryKey
from thinwire.topics.topic_documents import SubscriptionDocument, TopicDocument
from thinwire.topics.topic_settings import ConfigDocument, Settings

ROOMS = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
FINGERPRINT = ROOMS.fingerprint.hex()


def topic(*subscriptions, demand=None, wanted=True):
    config = ConfigDocument("rooms", 1, wanted, demand or Demand()) if demand is not False else None
    record = TopicRecord("rooms")
    record.put(RegistryKey(DocumentKind.TOPIC, "rooms"), TopicDocument("rooms", FINGERPRINT, Settings()))
    record.put(RegistryKey(DocumentKind.CONFIG, "rooms"), config)
    record.schemas[FINGERPRINT] = ROOMS
    record.subscriptions.update({one.identity: one for one in subscriptions})
    return record


def subscription(identity, t, **fields):
    return SubscriptionDocument("rooms", identity, {"t": t}, **fields)


def states(plan, decisions, now):
    return sorted(decision.state for decision in plan.update(decisions, now).values())


def test_no_channel_is_needed_if_the_log_is_sufficient():
    record = topic(subscription("a", 0.5), subscription("b", 1.0), demand=Demand({"t": 0.5}))
    decisions = ChannelDecider().decide(record)
    assert [decision.state for decision in decisions.values()] == ["log", "open"]


def test_the_log_serves_before_publishers_are_configured():
    for record in (topic(subscription("a", 0.5), demand=False), topic(subscription("a", 0.5), wanted=False)):
        [decision] = ChannelDecider().decide(record).values()
        assert decision.state == "log"


def test_the_log_serves_if_publishers_omit_events():
    [decision] = ChannelDecider().decide(topic(subscription("a", 0.5), demand=Demand(min_interval=5))).values()
    assert decision.state == "log"
    assert "min_interval" in decision.reason


def test_equal_demands_are_one_class_and_the_oldest_subscription_comes_first():
    present = [subscription("c", 0.5, since=3.0), subscription("a", 0.5, since=9.0), subscription("b", 1.0, since=1.0)]
    decisions = ChannelDecider().decide(topic(*present))
    assert [one.demand.tolerance["t"] for one in decisions.values()] == [1, 0.5]


def test_decisions_are_updated_after_a_new_configuration():
    decider = ChannelDecider()
    [before] = decider.decide(topic(subscription("a", 0.5))).values()
    [after] = decider.decide(topic(subscription("a", 0.5), demand=Demand({"t": 0.5}))).values()
    assert (before.state, after.state) == ("open", "log")
    assert decider.decide(topic()) == {}


def test_a_channel_stays_open_for_the_grace_period():
    plan, decider = ChannelPlan(grace=10.0), ChannelDecider()
    assert states(plan, decider.decide(topic(subscription("a", 0.5))), 0.0) == ["open"]
    assert states(plan, {}, 100.0) == ["open"]
    assert states(plan, {}, 109.9) == ["open"]
    assert states(plan, decider.decide(topic(subscription("b", 0.5))), 109.9) == ["open"]
    assert states(plan, {}, 115.0) == ["open"]
    assert not plan.is_idle
    assert states(plan, {}, 125.0) == []
    assert plan.is_idle


def test_the_log_serves_after_the_grace_period_and_a_channel_immediately():
    plan, decider = ChannelPlan(grace=10.0), ChannelDecider()
    loose, strict = (decider.decide(topic(subscription("a", 0.5), demand=Demand({"t": t}))) for t in (0.5, 0.1))
    assert states(plan, strict, 0.0) == ["open"]
    assert states(plan, loose, 1.0) == ["open"]
    assert states(plan, loose, 11.0) == ["log"]
    assert states(plan, strict, 12.0) == ["open"]


def test_above_the_limit_the_newest_classes_are_refused_until_capacity_is_free():
    plan, decider = ChannelPlan(grace=0.0), ChannelDecider()
    limit = MAX_CLASSES["predict"]
    subscriptions = [subscription(f"s{n}", round(0.1 + n / 10, 1), since=float(n)) for n in range(limit + 2)]
    served = plan.update(decider.decide(topic(*subscriptions)), 0.0)
    assert [one.state for one in served.values()] == ["open"] * limit + ["refused"] * 2
    assert "emit='changes'" in list(served.values())[-1].reason
    served = plan.update(decider.decide(topic(*subscriptions[1:])), 1.0)
    assert [one.state for one in served.values()].count("refused") == 1
    subscriptions = [subscription(f"h{n}", round(0.1 + n / 10, 1), emit="changes") for n in range(limit + 2)]
    assert states(ChannelPlan(0.0), decider.decide(topic(*subscriptions)), 0.0) == ["open"] * (limit + 2)


def test_resumed_channels_are_kept_before_older_subscriptions():
    plan, decider = ChannelPlan(grace=10.0), ChannelDecider()
    limit = MAX_CLASSES["predict"]
    resumed = [subscription(f"h{n}", round(0.1 + n / 10, 1), since=100.0) for n in range(limit)]
    decisions = decider.decide(topic(*resumed, subscription("early", 99, since=0.0)))
    plan.resume(one.demand for one in decisions.values() if one.demand.tolerance["t"] != 99)
    refused = [one for one in plan.update(decisions, 0.0).values() if one.state == "refused"]
    assert [one.demand.tolerance["t"] for one in refused] == [99]
