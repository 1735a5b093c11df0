"""Plans: round trip through TOML, and errors that name the field."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire import connect
from thinwire.errors import PlanError
from thinwire.schema import Property, Schema, to_turtle
from thinwire.topics.registry_client import open_registry, topic_document
from thinwire.topics.topic_plan import Plan, TopicPlan, load_plan, read_plan, register_plan, write_plan
from thinwire.topics.topic_settings import Settings

ROOMS = Schema(
    "building.rooms",
    [
        Property("time", "timestamp", "header", form="iso:T0Z"),
        Property("room", "string", "dimension"),
        Property("t", "number", step="0.1", unit='"C"\x7f\n'),
    ],
    version=3,
)
PLAN = Plan(
    {
        "building.rooms": TopicPlan(
            ROOMS,
            Settings(retain=True, tolerance={"t": 0.5}, predictor={"t": "trend"}, audit_every=7),
            linger=0.1,
            max_batch=4096,
            expected={"link_saving": 0.9},
        )
    },
    command='thinwire analyze "a b.jsonl"',
)


def test_plans_round_trip(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(write_plan(PLAN), encoding="utf-8")
    assert load_plan(path) == PLAN


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(lambda name: "." not in name)


@given(st.dictionaries(names, st.floats(0, 1e6), max_size=4), st.floats(0, 10), names)
def test_any_property_names_round_trip(tolerances, linger, unit):
    schema = Schema("rooms", [Property(name, "float", unit=unit) for name in tolerances or {"t": 0}])
    plan = Plan({"rooms": TopicPlan(schema, Settings(tolerance=tolerances), linger)})
    assert read_plan(write_plan(plan)) == plan


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("version = 1", "version = 2", "field='version'"),
        ("linger = 0.1", "linger = -1", "rooms\".linger'"),
        ("linger = 0.1", 'linger = "soon"', "rooms\".linger'"),
        ("linger = 0.1", "lingr = 0.1", "rooms\".lingr'"),
        ("max_batch = 4096", "max_batch = 0", "rooms\".max_batch'"),
        ('format = "compact"', 'format = "xml"', "rooms\".format'"),
        ("max_silence = 30.0", "max_silence = 0", "rooms\".max_silence'"),
        ('predictor = { t = "trend" }', 'predictor = "oracle"', "rooms\".predictor'"),
        ("t = 0.5", "u = 0.5", "property='u'"),
        ("t = 0.5", "t = -0.5", "property='t'"),
        ("link_saving = 0.9", 'link_saving = "much"', "expected.link_saving"),
        ('kind = "number"', 'kind = "count"', "property='t'"),
        ("[topics", "topics", "not TOML"),
    ],
)
def test_errors_name_the_field(before, after, complaint):
    text = write_plan(PLAN)
    assert before in text
    with pytest.raises(PlanError) as caught:
        read_plan(text.replace(before, after))
    assert complaint in str(caught.value), str(caught.value)


def test_a_schema_can_be_in_a_file_beside_the_plan(tmp_path):
    (tmp_path / "rooms.ttl").write_text(to_turtle(ROOMS))
    (tmp_path / "rooms.json").write_text(json.dumps(ROOMS.to_document()))
    for file in ("rooms.ttl", "rooms.json"):
        path = tmp_path / "plan.toml"
        path.write_text(f'version = 1\n[topics."building.rooms"]\nschema = "{file}"\nlinger = 1.5\n')
        topic = load_plan(path).topic("building.rooms")
        assert (topic.schema, topic.linger) == (ROOMS, 1.5)
    path.write_text('version = 1\n[topics.other]\nschema = "rooms.ttl"\n')
    with pytest.raises(PlanError, match="name of its schema"):
        load_plan(path)
    with pytest.raises(PlanError, match="no such topic"):
        PLAN.topic("other")


def test_topics_are_registered_and_published_as_planned():
    asyncio.run(_published())


async def _published():
    async with connect("memory://plans") as bus:
        [document] = await register_plan(await open_registry(bus.broker), PLAN)
        assert document.settings == PLAN.topics["building.rooms"].settings
        assert await topic_document(await open_registry(bus.broker), "building.rooms") == document
        async with bus.publisher("building.rooms", **PLAN.topic("building.rooms").publishing) as out:
            await out.publish({"time": "2024-05-01T10:00:00Z", "room": "a", "t": 20.5})
            await out.flush()
            assert out.encoder.config.demand.tolerance["t"] == 0.5
            assert out.encoder.config.audit_every == 7
            assert out.wanted
