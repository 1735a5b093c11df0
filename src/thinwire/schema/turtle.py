"""Conversion between schemas and RDF documents in Turtle.

>>> schema = from_turtle('''
... @prefix : <https://thinwire.dev/ns#> .
... @prefix so: <https://schema.org/> .
... @prefix unit: <http://qudt.org/vocab/unit/> .
... <rooms> a :EventSchema ; :name "building.rooms" ; :property <temperature> .
... <temperature> a :EventProperty ;
...     :runtimeName "temperature" ;
...     :runtimeType so:Number ;
...     :hasUnit unit:DEG_C ;
...     :valueSpecification [ a so:QuantitativeValue ; :step 0.1 ; :minValue 0 ; :maxValue 50 ] .
... ''')
>>> schema["temperature"].unit, schema["temperature"].maximum
('qudt:DEG_C', 50)
>>> from_turtle(to_turtle(schema)) == schema
True
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any
from urllib.parse import quote

from pyoxigraph import Literal, NamedNode

from thinwire.errors import SchemaError
from thinwire.schema.property import MAX_MEMBERS, Property, Role
from thinwire.schema.rdf_graph import DOMAINS, PREFIXES, RUNTIME_TYPES, TW, UNITS, Node, read_graph, readable
from thinwire.schema.schema import Schema

_KINDS = {iri: kind for kind, iri in RUNTIME_TYPES.items()}
_ROLES = {TW + role.value: role for role in Role}
_SCHEMA_TERMS = frozenset({"name", "version", "property"})
_RANGE_TERMS = frozenset({"step", "minValue", "maxValue"})
_PROPERTY_TERMS = frozenset(
    {"runtimeName", "runtimeType", "hasUnit", "domainProperty", "valueSpecification"}
    | {"order", "role", "members", "closed", "form", "length", "idleBand", "period"}
    | {"confidential", "static", "customKind"}
)


def to_turtle(schema: Schema) -> str:
    """Return the schema as a Turtle document; it includes the order of the properties."""
    subject = f"urn:thinwire:{quote(schema.name, safe='')}:{schema.version}"
    nodes = [f"<{subject}#{quote(p.name, safe='')}>" for p in schema]
    heading = [
        ("a", "tw:EventSchema"),
        ("tw:name", _literal(schema.name)),
        ("tw:version", str(schema.version)),
        ("tw:property", ", ".join(nodes)),
    ]
    prefixes = [f"@prefix {prefix}: <{space}> ." for prefix, space in PREFIXES.items()]
    described = [_block(node, _facts(p, order)) for order, (node, p) in enumerate(zip(nodes, schema, strict=True))]
    return "\n".join([*prefixes, "", _block(f"<{subject}>", heading), *described])


def from_turtle(text: str) -> Schema:
    """Return the schema of a Turtle document, which must contain exactly one `tw:EventSchema`."""
    graph = read_graph(text)
    found = [node for key in graph if (node := Node(graph, key)).is_a(f"{TW}EventSchema")]
    if len(found) != 1:
        raise SchemaError("a document must describe one tw:EventSchema", found=[node.label for node in found])
    node = found[0]
    _refuse_unknown(node, _SCHEMA_TERMS)
    version = node.integer("version")
    name = _required(node, "name", node.text("name"), "the name of the schema")
    return Schema(name, _properties(node), 1 if version is None else version)


def _properties(schema: Node) -> list[Property]:
    """Return the properties by `tw:order`, then those without one in the order of the document."""
    nodes = schema.nodes("property")
    orders = [node.integer("order") for node in nodes]
    ranked = sorted(zip(orders, nodes, strict=True), key=lambda pair: (pair[0] is None, pair[0] or 0))
    return [_property(node) for _, node in ranked]


def _property(node: Node) -> Property:
    _refuse_unknown(node, _PROPERTY_TERMS)
    name = _required(node, "runtimeName", node.text("runtimeName"), "the name of the property in events")
    kind = _required(node, "runtimeType", node.iri("runtimeType"), "the type of its values")
    if kind not in _KINDS:
        node.fail("runtimeType", f"one of {', '.join(map(readable, _KINDS))}", readable(kind))
    role = node.iri("role") or TW + Role.MEASUREMENT.value
    if role not in _ROLES:
        node.fail("role", f"one of {', '.join(map(readable, _ROLES))}", readable(role))
    details = _range(node) | _details(node)
    try:
        return Property(name, _KINDS[kind], _ROLES[role], **details)
    except SchemaError as problem:
        raise SchemaError(f"{node.label}: {problem.detail}", subject=node.label, **problem.facts) from None


def _range(node: Node) -> dict[str, Any]:
    spec = node.node("valueSpecification")
    if spec is None:
        return {}
    _refuse_unknown(spec, _RANGE_TERMS)
    return {
        "step": spec.text("step", "a number"),
        "minimum": spec.real("minValue"),
        "maximum": spec.real("maxValue"),
    }


def _details(node: Node) -> dict[str, Any]:
    unit, domain = node.named("hasUnit"), node.named("domainProperty")
    return {
        "unit": None if unit is None else UNITS.text(unit),
        "domain": None if domain is None else DOMAINS.text(domain),
        "members": node.texts("members", MAX_MEMBERS),
        "closed": node.flag("closed"),
        "form": node.text("form"),
        "length": node.integer("length"),
        "idle_band": node.real("idleBand"),
        "period": node.integer("period"),
        "confidential": node.flag("confidential"),
        "static": node.flag("static"),
        "custom_kind": node.text("customKind"),
    }


def _required(node: Node, name: str, value: str | None, expected: str) -> str:
    if value is None:
        node.fail(name, f"given: {expected}", "nothing")
    return value


def _refuse_unknown(node: Node, known: frozenset[str]) -> None:
    """Raise an error for an unknown thinwire term, because it is probably misspelt; ignore other vocabularies."""
    unknown = next((name for name in node.names() if name not in known), None)
    if unknown is not None:
        node.fail(unknown, f"one of {', '.join(f'tw:{name}' for name in sorted(known))}", f"tw:{unknown}")


def _facts(p: Property, order: int) -> Iterator[tuple[str, str]]:
    yield "a", "tw:EventProperty"
    yield "tw:order", str(order)
    yield "tw:runtimeName", _literal(p.name)
    yield "tw:runtimeType", readable(RUNTIME_TYPES[p.kind])
    yield "tw:role", f"tw:{p.role.value}"
    if p.unit is not None:
        yield "tw:hasUnit", _term(UNITS.term(p.unit))
    if p.domain is not None:
        yield "tw:domainProperty", _term(DOMAINS.term(p.domain))
    if limits := list(_limits(p)):
        yield "tw:valueSpecification", f"[ {' ; '.join(('a so:QuantitativeValue', *limits))} ]"
    if p.members:
        yield "tw:members", f"( {' '.join(map(_literal, p.members))} )"
    hints = {"form": p.form, "length": p.length, "idleBand": p.idle_band, "period": p.period}
    flags = {"closed": p.closed, "confidential": p.confidential, "static": p.static}
    for word, value in {**hints, "customKind": p.custom_kind}.items():
        if value is not None:
            yield f"tw:{word}", _literal(value) if isinstance(value, str) else repr(value)
    yield from ((f"tw:{word}", "true") for word, is_set in flags.items() if is_set)


def _limits(p: Property) -> Iterator[str]:
    if p.step is not None:
        yield f"tw:step {_decimal(p.step)}"
    for word, value in (("minValue", p.minimum), ("maxValue", p.maximum)):
        if value is not None:
            yield f"tw:{word} {value!r}"


def _decimal(step: Fraction) -> str:
    """Return the step as a decimal, or as a text such as "1/3" if it has none."""
    digits = next((n for n in range(41) if 10**n % step.denominator == 0), None)
    if digits is None:
        return _literal(str(step))
    scaled = str(int(step * 10**digits)).rjust(digits + 1, "0")
    return f"{scaled[:-digits]}.{scaled[-digits:]}" if digits else scaled


def _block(subject: str, facts: Any) -> str:
    return f"{subject}\n    " + " ;\n    ".join(f"{predicate} {value}" for predicate, value in facts) + " .\n"


def _literal(text: str) -> str:
    return str(Literal(text))


def _term(term: NamedNode | Literal) -> str:
    return readable(term.value) if isinstance(term, NamedNode) else str(term)
