"""The registry as a graph: triples of documents, changes, and limits of queries."""

import asyncio
import subprocess
import sys

import pytest

from thinwire.codec import Demand
from thinwire.errors import RegistryError
from thinwire.schema import Property, Schema, from_turtle, to_turtle
from thinwire.services.registry.rdf_projection import MAX_QUERY, MAX_ROWS, RdfProjection
from thinwire.topics.topic_documents import PublisherDocument, SubscriptionDocument, TopicDocument
from thinwire.topics.topic_settings import ConfigDocument, Settings

ROOMS = Schema(
    "building.rooms",
    [
        Property("time", "timestamp", "header"),
        Property("room", "string", "dimension"),
        Property("t", "number", step="0.1", minimum=0, maximum=50, unit="qudt:DEG_C"),
        Property("power", "number", step=1, unit="qudt:W"),
        Property("make", "string", static=True),
    ],
)
FINGERPRINT = ROOMS.fingerprint.hex()
FOREVER = "SELECT (COUNT(*) AS ?n) WHERE { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?n ?o . ?p ?q ?r }"


@pytest.fixture
def graph():
    graph = RdfProjection()
    graph.put(ROOMS)
    graph.put(TopicDocument("building.rooms", FINGERPRINT, Settings(retain=True)))
    graph.put(ConfigDocument("building.rooms", 3, True, Demand({"t": 0.5})))
    graph.put(SubscriptionDocument("building.rooms", "a", {"t": 0.5}, sources={"room": "11.1"}, exact=("power",)))
    graph.put(SubscriptionDocument("building.rooms", "b", {"t": "1%"}, durable="b", properties=("t",)))
    graph.put(PublisherDocument("building.rooms", "p1", 4, 1.5, FINGERPRINT))
    return graph


def rows(graph, query):
    return graph.answer(query)["rows"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT ?n { ?t a tw:Topic ; tw:name ?n ; tw:retain true }", [["building.rooms"]]),
        (
            "SELECT ?n { ?t a tw:Topic ; tw:schema/tw:property ?p . ?p tw:runtimeName ?n ; tw:hasUnit unit:DEG_C }",
            [["t"]],
        ),
        ("SELECT ?n { ?p tw:static true ; tw:runtimeName ?n }", [["make"]]),
        (
            "SELECT ?i ?v { ?s a tw:Subscription ; tw:identity ?i ; tw:tolerance [ tw:runtimeName 't' ; tw:value ?v ] }"
            " ORDER BY ?i",
            [["a", 0.5], ["b", "1%"]],
        ),
        ("SELECT ?i { ?s tw:source [ tw:runtimeName 'room' ; tw:value '11.1' ] ; tw:identity ?i }", [["a"]]),
        ("SELECT ?i { ?s tw:durable ?d ; tw:identity ?i ; tw:selects 't' }", [["b"]]),
        (
            "SELECT ?v { ?c a tw:Configuration ; tw:topic/tw:name 'building.rooms' ; tw:version ?v ; tw:wanted true }",
            [[3]],
        ),
        ("SELECT ?n ?i { ?p a tw:Publisher ; tw:name ?n ; tw:incarnation ?i ; tw:schema/tw:version 1 }", [["p1", 4]]),
        ("SELECT (MAX(?m) AS ?most) { ?p tw:valueSpecification/tw:maxValue ?m }", [[50]]),
        ("SELECT ?x ?y { BIND('service' AS ?x) }", [["service", None]]),
        ("SELECT ?service WHERE { ?service a tw:Topic } # no SERVICE here", [["urn:thinwire:topic:building.rooms"]]),
    ],
)
def test_select_queries(graph, query, expected):
    assert rows(graph, query) == expected


def test_ask_and_construct_queries(graph):
    assert graph.answer("ASK { ?t tw:name 'building.rooms' }") == {"answer": True}
    assert graph.answer("ASK { ?t tw:name 'nothing' }") == {"answer": False}
    built = graph.answer("CONSTRUCT { ?t so:name ?n } WHERE { ?t a tw:Topic ; tw:name ?n }")
    assert 'so:name "building.rooms"' in built["turtle"]
    assert built["complete"]


def test_a_schema_can_be_read_back_from_the_graph(graph):
    query = f"CONSTRUCT {{ ?s ?p ?o }} WHERE {{ GRAPH <urn:thinwire:schema:{FINGERPRINT}> {{ ?s ?p ?o }} }}"
    text = graph.answer(query)["turtle"].replace(f'tw:fingerprint "{FINGERPRINT}"', 'so:identifier "x"')
    assert from_turtle(text) == ROOMS


def test_a_change_replaces_the_triples_of_one_document(graph):
    count = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c }"
    before = rows(graph, count)
    graph.put(SubscriptionDocument("building.rooms", "a", {"power": 3}))
    assert rows(graph, "SELECT ?v { ?s tw:identity 'a' ; tw:tolerance/tw:value ?v }") == [[3]]
    graph.put(SubscriptionDocument("building.rooms", "a", {"t": 0.5}, sources={"room": "11.1"}, exact=("power",)))
    assert rows(graph, count) == before


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("INSERT DATA { <urn:a> <urn:b> <urn:c> }", "not a SPARQL query"),
        ("DELETE WHERE { ?a ?b ?c }", "not a SPARQL query"),
        ("DROP ALL", "not a SPARQL query"),
        ("LOAD <http://127.0.0.1/x>", "not a SPARQL query"),
        ("SELECT", "not a SPARQL query"),
        ("SELECT * { SERVICE <http://127.0.0.1:1/> { ?a ?b ?c } }", "SERVICE"),
        ("SELECT * { service silent<http://127.0.0.1:1/>{ ?a ?b ?c } }", "SERVICE"),
        ("SELECT * { ?x <urn:'> 5 . SERVICE <http://127.0.0.1:1/> { ?a ?b '' } }", "SERVICE"),
        ("PREFIX e: <u:> SELECT * { ?x e:\\' 5 . SERVICE e:s { ?a ?b e:\\' } }", "SERVICE"),
        ("SELECT * { ?x ?y 'it\\'s' SERVICE <http://127.0.0.1:1/> { ?a ?b 'x' } }", "SERVICE"),
        ("SELECT * { FILTER(?a<?b)SERVICE<http://127.0.0.1:1/>{ ?a ?b ?c } }", "SERVICE"),
        ("SELECT * { ?x ?y '''a''b''' . SERVICE?z{ ?a ?b ?c } }", "SERVICE"),
        ("SELECT * { \\u0053ERVICE <http://127.0.0.1:1/> { ?a ?b ?c } }", "escapes"),
        ("SELECT * { ?a ?b ?c BIND(<urn:f>(?a) AS ?d) }", "cannot be answered"),
        ("#" * (MAX_QUERY + 1), "too long"),
    ],
)
def test_invalid_and_forbidden_queries_are_refused(graph, query, why):
    with pytest.raises(RegistryError, match=why):
        graph.answer(query)


def test_a_large_result_is_cut_and_marked(graph):
    everything = "SELECT ?a ?d { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"
    found = graph.answer(everything)
    assert (len(found["rows"]), found["complete"]) == (MAX_ROWS, False)
    built = graph.answer("CONSTRUCT { ?a ?e ?i } WHERE { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }")
    assert not built["complete"]


def test_a_query_with_a_time_limit_has_the_same_result(graph):
    query = "SELECT ?n { ?t a tw:Topic ; tw:name ?n }"
    assert asyncio.run(graph.query(query)) == graph.answer(query)


def test_a_query_is_abandoned_after_the_timeout():
    """In a process of its own, because the abandoned thread works until the process ends."""
    program = f"""
import asyncio
import subprocess
import sys
from thinwire.schema import Property, Schema
from thinwire.services.registry.rdf_projection import RdfProjection

graph = RdfProjection()
graph.put(Schema("rooms", [Property(f"p{{n}}", "integer") for n in range(40)]))
try:
    asyncio.run(graph.query({FOREVER!r}, timeout=0.7))
except Exception as problem:
    print(problem)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "takes too long" in ended.stdout


@pytest.mark.parametrize("query", ["SELECT", "DROP ALL", "SELECT * { SERVICE ?s { ?a ?b ?c } }"])
def test_errors_of_a_query_with_a_time_limit(graph, query):
    with pytest.raises(RegistryError, match="SERVICE" if "SERVICE" in query else "not a SPARQL query"):
        asyncio.run(graph.query(query))


def test_turtle_of_a_schema_and_of_the_graph_agree(graph):
    assert rows(graph, "SELECT ?n { ?s a tw:EventSchema ; tw:name ?n }") == [["building.rooms"]]
    assert "tw:static true" in to_turtle(ROOMS)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * { FILTER(" + "(" * 32_000 + "1" + ")" * 32_000 + ") }",
        "SELECT * " + "{" * 32_000 + "}" * 32_000,
        "SELECT * { FILTER(" + "!" * 60_000 + "true) }",
        "SELECT * { {}" + " UNION{}" * 8_000 + " }",
    ],
    ids=["parentheses", "groups", "negations", "unions"],
)
def test_a_deeply_nested_query_does_not_end_the_process(graph, query):
    assert "rows" in asyncio.run(graph.query(query, timeout=60.0))


@pytest.mark.parametrize(
    ("expression", "value"),
    [("1/0.0e0", None), ("xsd:double('INF')", "INF"), ("STRDT('x', xsd:integer)", "x"), ("true", True), ("1.5", 1.5)],
)
def test_values_without_a_json_form_are_text(graph, expression, value):
    found = rows(graph, f"SELECT ({expression} AS ?v) {{}}")[0][0]
    assert found == value or value is None
