"""Which classes have a channel: at once where one is needed, a while longer than it is, and not too many."""

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


def topic(*asked, demand=None, wanted=True):
    document = TopicDocument("rooms", FINGERPRINT, Settings())
    config = ConfigDocument("rooms", 1, wanted, demand or Demand()) if demand is not False else None
    record = TopicRecord("rooms")
    record.put(RegistryKey(DocumentKind.TOPIC, "rooms"), document)
    record.put(RegistryKey(DocumentKind.CONFIG, "rooms"), config)
    record.schemas[FINGERPRINT] = ROOMS
    record.subscriptions.update({subscription.identity: subscription for subscription in asked})
    return record


def asking(identity, t, **fields):
    return SubscriptionDocument("rooms", identity, {"t": t}, **fields)


def states(plan, verdicts, now):
    return sorted(one.state for one in plan.update(verdicts, now).values())


def test_what_the_log_is_needs_no_channel():
    verdicts = ChannelDecider().decide(topic(asking("a", 0.5), asking("b", 1.0), demand=Demand({"t": 0.5})))
    assert [one.state for one in verdicts.values()] == ["log", "open"]


def test_nothing_is_decided_before_publishers_are_told():
    for unknown in (topic(asking("a", 0.5), demand=False), topic(asking("a", 0.5), wanted=False)):
        [verdict] = ChannelDecider().decide(unknown).values()
        assert verdict.state == "log"


def test_where_publishers_leave_events_out_everybody_reads_the_log():
    [verdict] = ChannelDecider().decide(topic(asking("a", 0.5), demand=Demand(min_interval=5))).values()
    assert verdict.state == "log"
    assert "min_interval" in verdict.reason


def test_equal_demands_are_one_class_and_the_first_to_ask_stand_first():
    asked = [asking("c", 0.5, since=3.0), asking("a", 0.5, since=9.0), asking("b", 1.0, since=1.0)]
    verdicts = ChannelDecider().decide(topic(*asked))
    assert [one.demand.tolerance["t"] for one in verdicts.values()] == [1, 0.5]


def test_a_judge_forgets_what_it_said_when_publishers_are_told_otherwise():
    judge = ChannelDecider()
    [before] = judge.decide(topic(asking("a", 0.5))).values()
    [after] = judge.decide(topic(asking("a", 0.5), demand=Demand({"t": 0.5}))).values()
    assert (before.state, after.state) == ("open", "log")
    assert judge.decide(topic()) == {}


def test_a_channel_outlives_its_last_subscriber_for_a_while():
    plan, judge = ChannelPlan(grace=10.0), ChannelDecider()
    assert states(plan, judge.decide(topic(asking("a", 0.5))), 0.0) == ["open"]
    assert states(plan, {}, 100.0) == ["open"]
    assert states(plan, {}, 109.9) == ["open"]
    assert states(plan, judge.decide(topic(asking("b", 0.5))), 109.9) == ["open"]
    assert states(plan, {}, 115.0) == ["open"]
    assert not plan.is_idle
    assert states(plan, {}, 125.0) == []
    assert plan.is_idle


def test_back_to_the_log_after_a_while_and_to_the_channel_at_once():
    plan, judge = ChannelPlan(grace=10.0), ChannelDecider()
    loose, strict = (judge.decide(topic(asking("a", 0.5), demand=Demand({"t": t}))) for t in (0.5, 0.1))
    assert states(plan, strict, 0.0) == ["open"]
    assert states(plan, loose, 1.0) == ["open"]
    assert states(plan, loose, 11.0) == ["log"]
    assert states(plan, strict, 12.0) == ["open"]


def test_beyond_the_limit_the_last_to_ask_are_refused_until_there_is_room():
    plan, judge = ChannelPlan(grace=0.0), ChannelDecider()
    limit = MAX_CLASSES["predict"]
    asked = [asking(f"s{n}", round(0.1 + n / 10, 1), since=float(n)) for n in range(limit + 2)]
    served = plan.update(judge.decide(topic(*asked)), 0.0)
    assert [one.state for one in served.values()] == ["open"] * limit + ["refused"] * 2
    assert "emit='changes'" in list(served.values())[-1].reason
    served = plan.update(judge.decide(topic(*asked[1:])), 1.0)
    assert [one.state for one in served.values()].count("refused") == 1
    hold = judge.decide(topic(*(asking(f"h{n}", round(0.1 + n / 10, 1), emit="changes") for n in range(limit + 2))))
    assert states(ChannelPlan(0.0), hold, 0.0) == ["open"] * (limit + 2)


def test_those_who_had_a_channel_keep_it_before_those_who_ask_now():
    plan, judge = ChannelPlan(grace=10.0), ChannelDecider()
    limit = MAX_CLASSES["predict"]
    had = [asking(f"h{n}", round(0.1 + n / 10, 1), since=100.0) for n in range(limit)]
    verdicts = judge.decide(topic(*had, asking("early", 99, since=0.0)))
    plan.resume(one.demand for one in verdicts.values() if one.demand.tolerance["t"] != 99)
    refused = [one for one in plan.update(verdicts, 0.0).values() if one.state == "refused"]
    assert [one.demand.tolerance["t"] for one in refused] == [99]
