"""RDF documents as nodes with checked access to values, and the vocabulary of schemas.

The vocabulary has schema.org types, QUDT units, WGS84 positions and terms of thinwire. Properties have short names
where documents have IRIs. A text without an IRI is a literal, so that every text survives a round trip.

>>> UNITS.term("qudt:DEG_C"), UNITS.term("µg/m³")
(<NamedNode value=http://qudt.org/vocab/unit/DEG_C>, <Literal value=µg/m³ ...>)
>>> DOMAINS.text(DOMAINS.term("wgs84:lat_long"))
'wgs84:lat_long'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, Triple, parse

from thinwire.errors import SchemaError
from thinwire.schema.kind import Kind

TW = "https://thinwire.dev/ns#"
SO = "https://schema.org/"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
UNIT = "http://qudt.org/vocab/unit/"
QUANTITY = "http://qudt.org/vocab/quantitykind/"
WGS84 = "http://www.w3.org/2003/01/geo/wgs84_pos#"

PREFIXES = {"tw": TW, "so": SO, "unit": UNIT, "quantitykind": QUANTITY, "wgs84": WGS84}
"""prefixes that `to_turtle` declares"""

RUNTIME_TYPES = {
    Kind.BOOLEAN: f"{SO}Boolean",
    Kind.INTEGER: f"{SO}Integer",
    Kind.NUMBER: f"{SO}Number",
    Kind.FLOAT: f"{SO}Float",
    Kind.ENUM: f"{SO}Enumeration",
    Kind.STRING: f"{SO}Text",
    Kind.TIMESTAMP: f"{SO}DateTime",
    Kind.GEO: f"{SO}GeoCoordinates",
    Kind.ARRAY: f"{TW}NumberArray",
    Kind.OPAQUE: f"{TW}Opaque",
}

_LOCAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_INSECURE_SO = "http://schema.org/"


class Names:
    """Short names of one field and their IRIs.

    spaces: namespace of each prefix; names without a prefix have the prefix ""
    also: other namespaces that are read as a prefix, but never written
    """

    def __init__(self, spaces: Mapping[str, str], also: Mapping[str, str]) -> None:
        self.spaces = spaces
        self.also = also
        self._prefixes = {**also, **{space: prefix for prefix, space in spaces.items()}}

    def term(self, text: str) -> NamedNode | Literal:
        """Return the IRI of a short name or IRI; a literal for other texts."""
        prefix, _, local = text.rpartition(":")
        if prefix in self.spaces and _LOCAL.fullmatch(local) and self._name(prefix, local) == text:
            return NamedNode(self.spaces[prefix] + local)
        try:
            node = NamedNode(text)
        except ValueError:
            return Literal(text)
        return node if self.text(node) == text else Literal(text)

    def text(self, term: NamedNode | Literal) -> str:
        """Return the short name of an IRI in a known namespace; the text of any other term."""
        if isinstance(term, NamedNode):
            space, local = split(term.value)
            if space in self._prefixes and _LOCAL.fullmatch(local):
                return self._name(self._prefixes[space], local)
        return term.value

    @staticmethod
    def _name(prefix: str, local: str) -> str:
        return f"{prefix}:{local}" if prefix else local


def split(iri: str) -> tuple[str, str]:
    """Return the namespace and the local name of an IRI."""
    cut = max(iri.rfind("#"), iri.rfind("/")) + 1
    return iri[:cut], iri[cut:]


def readable(iri: str) -> str:
    """Return an IRI as in Turtle, with a prefix if one is declared."""
    space, local = split(iri)
    prefix = next((prefix for prefix, known in PREFIXES.items() if known == space), None)
    return f"{prefix}:{local}" if prefix and _LOCAL.fullmatch(local) else f"<{iri}>"


def secure(iri: str) -> str:
    """Return the https form of a schema.org IRI; documents use both for the same vocabulary."""
    return SO + iri.removeprefix(_INSECURE_SO) if iri.startswith(_INSECURE_SO) else iri


UNITS = Names(
    {"qudt": UNIT},
    also={"http://qudt.org/vocab/unit#": "qudt", "http://qudt.org/schema/qudt/": "qudt"},
)
DOMAINS = Names(
    {"": TW, "qudt": QUANTITY, "wgs84": WGS84, "so": SO},
    also={"http://qudt.org/schema/qudt/": "qudt", _INSECURE_SO: "so"},
)


MAX_TEXT = 1_000_000
MAX_LEXICAL = 400
_BASE = "https://thinwire.dev/schemas/"
_READERS: dict[str, Callable[[str], int | float]] = {
    f"{XSD}integer": int,
    f"{XSD}decimal": float,
    f"{XSD}double": float,
    f"{XSD}float": float,
}

Term = NamedNode | BlankNode | Literal | Triple
Graph = dict[str, dict[str, list[Term]]]


@dataclass(frozen=True)
class Node:
    """One subject of a document. The argument `name` of its methods is a term of the thinwire vocabulary."""

    graph: Graph
    subject: str

    @property
    def label(self) -> str:
        return readable(self.subject) if not self.subject.startswith("_:") else self.subject

    def names(self) -> Iterator[str]:
        """Return the thinwire terms that this node uses."""
        return (iri.removeprefix(TW) for iri in self.graph.get(self.subject, {}) if iri.startswith(TW))

    def is_a(self, iri: str) -> bool:
        types = self.graph.get(self.subject, {}).get(f"{RDF}type", [])
        return any(isinstance(term, NamedNode) and secure(term.value) == iri for term in types)

    def all(self, name: str) -> list[Term]:
        """Return every value of a predicate, including those of the schema.org term of the same name."""
        own = self.graph.get(self.subject, {})
        return [*own.get(TW + name, ()), *own.get(SO + name, ())]

    def one(self, name: str) -> Term | None:
        values = self.all(name)
        if len(values) > 1:
            self.fail(name, "one value", values)
        return values[0] if values else None

    def node(self, name: str) -> Node | None:
        term = self.one(name)
        return None if term is None else self._follow(name, term)

    def nodes(self, name: str) -> list[Node]:
        return [self._follow(name, term) for term in self.all(name)]

    def iri(self, name: str) -> str | None:
        term = self._typed(name, NamedNode, "an IRI")
        return None if term is None else secure(term.value)

    def named(self, name: str) -> NamedNode | Literal | None:
        term: NamedNode | Literal | None = self._typed(name, NamedNode | Literal, "an IRI or a text")
        return term

    def text(self, name: str, expected: str = "a text") -> str | None:
        """Return the text of a literal of any type."""
        term = self._typed(name, Literal, expected)
        return None if term is None else term.value

    def _typed(self, name: str, kind: Any, expected: str) -> Any:
        term = self.one(name)
        if term is not None and not isinstance(term, kind):
            self.fail(name, expected, term)
        return term

    def real(self, name: str) -> int | float | None:
        """Return a number with the type of its literal: `0` is an int and `0.0` a float."""
        term = self.one(name)
        if term is None:
            return None
        try:
            if isinstance(term, Literal) and len(term.value) <= MAX_LEXICAL:
                return _READERS[term.datatype.value](term.value)
        except (KeyError, ValueError):
            pass
        self.fail(name, "a number", term)

    def integer(self, name: str) -> int | None:
        value = self.real(name)
        if isinstance(value, float):
            self.fail(name, "a whole number", value)
        return value

    def flag(self, name: str) -> bool:
        text = self.text(name, "true or false")
        if text not in (None, "true", "false", "1", "0"):
            self.fail(name, "true or false", text)
        return text in ("true", "1")

    def texts(self, name: str, limit: int) -> list[str]:
        """Return the texts of a list in parentheses."""
        item, texts = self.one(name), list[str]()
        while item is not None and str(item) != f"<{RDF}nil>":
            cell = self.graph.get(_key(item), {})
            head, rest = cell.get(f"{RDF}first", []), cell.get(f"{RDF}rest", [])
            if len(head) != 1 or len(rest) != 1 or not isinstance(head[0], Literal):
                self.fail(name, 'a list of texts such as ( "on" "off" )', item)
            if len(texts) == limit:
                self.fail(name, f"at most {limit} texts", len(texts) + 1)
            texts.append(head[0].value)
            item = rest[0]
        return texts

    def fail(self, name: str, expected: str, given: object) -> NoReturn:
        raise SchemaError(
            f"{self.label} {readable(TW + name)} must be {expected}",
            subject=self.label,
            predicate=readable(TW + name),
            expected=expected,
            given=str(given),
        )

    def _follow(self, name: str, term: Term) -> Node:
        if isinstance(term, Literal) or _key(term) not in self.graph:
            self.fail(name, "a node of this document", term)
        return Node(self.graph, _key(term))


def read_graph(text: str) -> Graph:
    """Return the triples of a Turtle text by subject and predicate, in the order of the text."""
    graph: Graph = {}
    try:
        data = text.encode()
        if len(data) > MAX_TEXT:
            raise SchemaError("the Turtle text is too large; write one schema per text", size=len(text), limit=MAX_TEXT)
        for quad in parse(data, format=RdfFormat.TURTLE, base_iri=_BASE):
            graph.setdefault(_key(quad.subject), {}).setdefault(secure(quad.predicate.value), []).append(quad.object)
    except UnicodeEncodeError as problem:
        raise SchemaError("the Turtle text is not valid Unicode", position=problem.start) from None
    except SyntaxError as problem:
        raise SchemaError(f"not Turtle: {problem.msg}", line=problem.lineno, column=problem.offset) from None
    return graph


def _key(term: object) -> str:
    return term.value if isinstance(term, NamedNode) else str(term)
