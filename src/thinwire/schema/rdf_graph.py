"""An RDF document as nodes whose values are asked for by name and checked when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, Triple, parse

from thinwire.errors import SchemaError
from thinwire.schema.rdf_graph_vocabulary import RDF, SO, TW, XSD, readable, secure

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
    """One subject of a document; `name`s are words of our own vocabulary."""

    graph: Graph
    subject: str

    @property
    def label(self) -> str:
        return readable(self.subject) if not self.subject.startswith("_:") else self.subject

    def names(self) -> Iterator[str]:
        """The words of our vocabulary that this node uses."""
        return (iri.removeprefix(TW) for iri in self.graph.get(self.subject, {}) if iri.startswith(TW))

    def is_a(self, iri: str) -> bool:
        types = self.graph.get(self.subject, {}).get(f"{RDF}type", [])
        return any(isinstance(term, NamedNode) and secure(term.value) == iri for term in types)

    def all(self, name: str) -> list[Term]:
        """Every value of a predicate; the words schema.org shares with us count as ours."""
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
        term = self.one(name)
        if term is not None and not isinstance(term, NamedNode):
            self.fail(name, "an IRI", term)
        return None if term is None else secure(term.value)

    def named(self, name: str) -> NamedNode | Literal | None:
        term = self.one(name)
        if term is not None and not isinstance(term, NamedNode | Literal):
            self.fail(name, "an IRI or a text", term)
        return term

    def text(self, name: str, expected: str = "a text") -> str | None:
        """The characters of a literal, whatever its type."""
        term = self.one(name)
        if term is not None and not isinstance(term, Literal):
            self.fail(name, expected, term)
        return None if term is None else term.value

    def real(self, name: str) -> int | float | None:
        """A number in the type it was written in: `0` is an int and `0.0` a float."""
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
        """The texts of a list written in parentheses."""
        place, texts = self.one(name), list[str]()
        while place is not None and str(place) != f"<{RDF}nil>":
            cell = self.graph.get(_key(place), {})
            head, rest = cell.get(f"{RDF}first", []), cell.get(f"{RDF}rest", [])
            if len(head) != 1 or len(rest) != 1 or not isinstance(head[0], Literal):
                self.fail(name, 'a list of texts such as ( "on" "off" )', place)
            if len(texts) == limit:
                self.fail(name, f"at most {limit} texts", len(texts) + 1)
            texts.append(head[0].value)
            place = rest[0]
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
            self.fail(name, "a node that this document describes", term)
        return Node(self.graph, _key(term))


def read_graph(text: str) -> Graph:
    """The triples of a Turtle text by subject and predicate, in the order of the text."""
    data = _encoded(text)
    graph: Graph = {}
    try:
        for quad in parse(data, format=RdfFormat.TURTLE, base_iri=_BASE):
            graph.setdefault(_key(quad.subject), {}).setdefault(secure(quad.predicate.value), []).append(quad.object)
    except SyntaxError as problem:
        raise SchemaError(f"not Turtle: {problem.msg}", line=problem.lineno, column=problem.offset) from None
    return graph


def nodes_of(graph: Graph, kinds: Iterable[str]) -> list[Node]:
    """The nodes of any of these types."""
    wanted = tuple(kinds)
    return [node for node in (Node(graph, key) for key in graph) if any(map(node.is_a, wanted))]


def _encoded(text: str) -> bytes:
    try:
        data = text.encode() if len(text) <= MAX_TEXT else b""
    except UnicodeEncodeError as problem:
        raise SchemaError("the Turtle text is not valid Unicode", position=problem.start) from None
    if len(text) > MAX_TEXT or len(data) > MAX_TEXT:
        raise SchemaError("the Turtle text is too large; keep one schema in a text", size=len(text), limit=MAX_TEXT)
    return data


def _key(term: object) -> str:
    return term.value if isinstance(term, NamedNode) else str(term)
