"""Schemas as RDF: the published listing is read, documents round trip, errors name their subject."""

from contextlib import suppress

import pytest
from event_strategies import schemas, texts
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import SchemaError
from thinwire.schema import Kind, Property, Role, Schema
from thinwire.schema.rdf_graph import DOMAINS, MAX_TEXT, UNITS
from thinwire.schema.turtle import from_turtle, to_turtle

HEAD = """
@prefix : <https://thinwire.dev/ns#> .
@prefix so: <https://schema.org/> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix wgs84: <http://www.w3.org/2003/01/geo/wgs84_pos#> .
"""
LISTING = (
    HEAD
    + """
<rooms> a :EventSchema ; :name "building.rooms" ; :property <temperature> .
<temperature> a :EventProperty ;
    :runtimeName 'temperature' ;
    :runtimeType so:Number ;
    :hasUnit qudt:DegreeCelsius ;
    :valueSpecification <valspec> .
<valspec> a so:QuantitativeValue ;
    :step 0.1 ;
    :minValue 0 ;
    :maxValue 50 .
"""
)


def document(facts: str, extra: str = "") -> str:
    return f'{HEAD}<s> a :EventSchema ; :name "s" ; :property <p> .\n<p> a :EventProperty ; {facts} .\n{extra}'


@given(schemas())
def test_a_schema_round_trips(schema: Schema) -> None:
    back = from_turtle(to_turtle(schema))
    assert back == schema
    assert back.fingerprint == schema.fingerprint


@given(texts)
def test_any_unit_and_domain_round_trips(text: str) -> None:
    assert UNITS.text(UNITS.term(text)) == text
    assert DOMAINS.text(DOMAINS.term(text)) == text


def test_the_listing_of_the_model() -> None:
    expected = Property("temperature", "number", step="0.1", minimum=0, maximum=50, unit="qudt:DegreeCelsius")
    assert from_turtle(LISTING) == Schema("building.rooms", [expected])


def test_short_names_become_real_identifiers() -> None:
    text = to_turtle(Schema("s", [Property("p", "float", unit="qudt:KiloW", domain="qudt:Power")]))
    assert "unit:KiloW" in text
    assert "quantitykind:Power" in text


def test_schema_org_may_be_written_with_http_and_with_its_own_limits() -> None:
    text = LISTING.replace("https://schema.org/", "http://schema.org/").replace(":minValue", "so:minValue")
    assert from_turtle(text)["temperature"].minimum == 0


def test_without_an_order_the_document_order_applies() -> None:
    text = f"""{HEAD}<s> a :EventSchema ; :name "s" ; :property <b>, <a>, <c> .
    <a> :runtimeName "a" ; :runtimeType so:Text . <b> :runtimeName "b" ; :runtimeType so:Text .
    <c> :runtimeName "c" ; :runtimeType so:Text ; :order 0 ."""
    assert [p.name for p in from_turtle(text)] == ["c", "b", "a"]


def test_terms_of_other_vocabularies_are_ignored() -> None:
    text = document(':runtimeName "p" ; :runtimeType so:Text ; <http://www.w3.org/2000/01/rdf-schema#label> "x"@de')
    assert from_turtle(text)["p"].kind is Kind.STRING


def test_roles_and_domains_read() -> None:
    facts = ':runtimeName "at" ; :runtimeType so:GeoCoordinates ; :role :header ; :domainProperty wgs84:lat_long'
    p = from_turtle(document(facts))["at"]
    assert (p.role, p.domain) == (Role.HEADER, "wgs84:lat_long")
    assert from_turtle(document(f"{facts} ; :closed false"))["at"].closed is False
    assert from_turtle(document(facts.replace("wgs84:lat_long", ":status")))["at"].domain == "status"


TYPED = ':runtimeName "p" ; :runtimeType so:Text'


@pytest.mark.parametrize(
    ("facts", "predicate", "expected"),
    [
        (":runtimeType so:Text", "tw:runtimeName", "given"),
        (':runtimeName "p"', "tw:runtimeType", "given"),
        (':runtimeName "p" ; :runtimeType so:Thing', "tw:runtimeType", "so:Number"),
        (':runtimeName "p" ; :runtimeType "Number"', "tw:runtimeType", "an IRI"),
        (':runtimeName "p", "q" ; :runtimeType so:Text', "tw:runtimeName", "one value"),
        (":runtimeName <p> ; :runtimeType so:Text", "tw:runtimeName", "a text"),
        (f"{TYPED} ; :role :boss", "tw:role", "tw:dimension"),
        (f"{TYPED} ; :runtimeNmae 'x'", "tw:runtimeNmae", "tw:runtimeName"),
        (f"{TYPED} ; :valueSpecification <nowhere>", "tw:valueSpecification", "a node"),
        (f"{TYPED} ; :valueSpecification [ :step <x> ]", "tw:step", "a number"),
        (f"{TYPED} ; :valueSpecification [ :minValue 'low' ]", "tw:minValue", "a number"),
        (f"{TYPED} ; :valueSpecification [ :maximum 5 ]", "tw:maximum", "tw:maxValue"),
        (f"{TYPED} ; :period 2.5", "tw:period", "a whole number"),
        (f"{TYPED} ; :confidential 'yes'", "tw:confidential", "true or false"),
        (f"{TYPED} ; :members 'on'", "tw:members", "a list of texts"),
        (f"{TYPED} ; :members ( 'on' <off> )", "tw:members", "a list of texts"),
        (f"{TYPED} ; :hasUnit [ ]", "tw:hasUnit", "an IRI or a text"),
    ],
)
def test_a_mistake_names_subject_predicate_and_what_was_expected(facts: str, predicate: str, expected: str) -> None:
    with pytest.raises(SchemaError) as caught:
        from_turtle(document(facts))
    assert caught.value.predicate == predicate
    assert expected in caught.value.expected
    assert caught.value.subject in str(caught.value)


def test_a_contradiction_names_the_subject() -> None:
    facts = ':runtimeName "p" ; :runtimeType so:Number'
    with pytest.raises(SchemaError, match=r"schemas/p>.*needs a step"):
        from_turtle(document(facts))
    with pytest.raises(SchemaError, match="finite"):
        from_turtle(document(f'{facts} ; :valueSpecification [ :step 1 ; :minValue "INF"^^<{_DOUBLE}> ]'))


_DOUBLE = "http://www.w3.org/2001/XMLSchema#double"


def test_a_circular_list_ends() -> None:
    cell = '<c> <{0}first> "x" ; <{0}rest> <c> .'.format("http://www.w3.org/1999/02/22-rdf-syntax-ns#")
    with pytest.raises(SchemaError, match="at most 65535 texts"):
        from_turtle(document(f"{TYPED} ; :members <c>", cell))


def test_syntax_errors_carry_line_and_column() -> None:
    with pytest.raises(SchemaError, match="not Turtle") as caught:
        from_turtle("@prefix a: <http://a/> .\na:b a:c a:d\n a:e a:f .")
    assert (caught.value.line, caught.value.column) == (3, 2)


def test_the_text_has_a_limit() -> None:
    padding = "# " + "é" * (MAX_TEXT // 2) + "\n"
    with pytest.raises(SchemaError) as caught:
        from_turtle(padding + LISTING)
    assert caught.value.limit == MAX_TEXT
    with pytest.raises(SchemaError, match="Unicode"):
        from_turtle("\ud800")


@given(
    st.integers(0, len(LISTING)), st.integers(0, 8), st.text(max_size=4) | st.sampled_from(["[", "(", ";", "<", ":"])
)
def test_a_damaged_document_gives_a_schema_or_the_documented_error(position: int, lost: int, found: str) -> None:
    with suppress(SchemaError):
        from_turtle(LISTING[:position] + found + LISTING[position + lost :])


@pytest.mark.parametrize("text", ["[" * 100_000, "<a> <b> " + "(" * 100_000, "@prefix " * 1000, "\x00" * 1000])
def test_a_malicious_text_is_rejected(text: str) -> None:
    with pytest.raises(SchemaError):
        from_turtle(text)


@pytest.mark.parametrize("text", ["", LISTING.replace("EventSchema", "Event"), LISTING + "<other> a :EventSchema ."])
def test_a_document_describes_one_schema(text: str) -> None:
    with pytest.raises(SchemaError, match="one tw:EventSchema"):
        from_turtle(text)
