"""The registry's documents as an RDF graph that answers SPARQL queries.

Schemas use the vocabulary of `thinwire.schema.turtle` (schema.org, QUDT, WGS84 and thinwire); topics, configurations,
subscriptions and publishers use that of thinwire. Every document has an IRI:

    urn:thinwire:topic:building.rooms                urn:thinwire:schema:<fingerprint>[#property]
    urn:thinwire:config:building.rooms               urn:thinwire:subscription:building.rooms.hvac
    urn:thinwire:publisher:building.rooms.p1

Each document is a named graph of its own, so that a change replaces the triples of one document. Queries see the union
of all graphs. They cannot change the documents.

The store cannot interrupt a query. A query therefore runs in a thread of its own; after the timeout the caller gets an
error, and the thread ends with the query or with the process. The thread has a large stack: the parser of the store is
recursive, and a deeply nested query would otherwise end the process.

The store is pyoxigraph, which also reads schemas. `lab/benchmarks/stores.py` compares it with rdflib.

>>> from thinwire.topics.topic_documents import TopicDocument
>>> graph = RdfProjection()
>>> graph.put(TopicDocument("building.rooms", "00ff00ff00ff00ff"))
>>> graph.answer('SELECT ?name WHERE { ?topic a tw:Topic ; tw:name ?name }')
{'columns': ['name'], 'rows': [['building.rooms']], 'complete': True}
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from itertools import islice
from typing import Any
from urllib.parse import quote

from pyoxigraph import (
    BlankNode,
    Literal,
    NamedNode,
    Quad,
    QueryBoolean,
    QuerySolutions,
    RdfFormat,
    Store,
    Triple,
    parse,
    serialize,
)

from thinwire.brokers.protocol import Bucket
from thinwire.errors import RegistryError
from thinwire.schema import Schema, to_turtle
from thinwire.schema.rdf_graph import PREFIXES, RDF, TW, XSD
from thinwire.services.registry.document_cache import DocumentCache
from thinwire.topics.names import schema_key
from thinwire.topics.topic_documents import PublisherDocument, RegistryDocument, SubscriptionDocument, TopicDocument
from thinwire.topics.topic_settings import ConfigDocument

QUERY_PREFIXES = {**PREFIXES, "rdf": RDF, "xsd": XSD}
"""prefixes that a query need not declare"""
MAX_QUERY = 65_536
"""characters of a query"""
MAX_ROWS = 10_000
"""rows or triples of a result"""
TIMEOUT = 15.0
"""seconds of a query"""
_STACK = 512 << 20
"""bytes of virtual memory: enough for the deepest nesting in MAX_QUERY characters"""

_READERS: dict[str, Callable[[str], Any]] = {
    "boolean": lambda text: text in ("true", "1"),
    "integer": int,
    "decimal": float,
    "double": float,
}
_TOKENS = re.compile(
    r"""
    <[^<>"{}|^`\\\x00-\x20]*>                                                  # an IRI
    | \"\"\"(?:\\.|[^\\])*?\"\"\" | '''(?:\\.|[^\\])*?'''                      # long texts
    | "(?:\\.|[^"\\\n\r])*" | '(?:\\.|[^'\\\n\r])*'                            # texts
    | \\.                                                                      # an escape in a prefixed name
    | \#[^\n\r]*                                                               # a comment
    """,
    re.VERBOSE | re.DOTALL,
)
_SERVICE = re.compile(r"(?<![\w:?$-])service(?![\w:-])", re.IGNORECASE)
_TYPE = NamedNode(f"{RDF}type")
_STREAM_TERMS = {
    "format": "format",
    "key_frame_interval": "keyFrameInterval",
    "max_silence": "maxSilence",
    "audit_every": "auditEvery",
    "late_policy": "latePolicy",
    "dictionaries": "dictionaries",
}
Node = NamedNode | BlankNode


def schema_iri(fingerprint: bytes | str) -> NamedNode:
    """Return the IRI of a version of a schema."""
    return NamedNode(f"urn:thinwire:schema:{fingerprint if isinstance(fingerprint, str) else fingerprint.hex()}")


def iri(key: str) -> NamedNode:
    """Return the IRI of the document under a key."""
    kind, _, rest = key.partition(".")
    return schema_iri(rest.rpartition(".")[2]) if kind == "schema" else NamedNode(f"urn:thinwire:{kind}:{rest}")


def triples_of(document: RegistryDocument | Schema) -> list[Triple]:
    """Return the triples of a document."""
    if isinstance(document, Schema):
        return list(_schema_triples(document))
    subject = iri(document.key)
    name, describe = _DESCRIBED[type(document)]
    return [Triple(subject, _TYPE, _make_term(name)), *describe(subject, document)]


def _schema_triples(schema: Schema) -> Iterator[Triple]:
    """Yield the triples of its Turtle form, under the IRI of its fingerprint, which identifies the version."""
    old = f"urn:thinwire:{quote(schema.name, safe='')}:{schema.version}"
    new = schema_iri(schema.fingerprint).value
    for quad in parse(to_turtle(schema), format=RdfFormat.TURTLE):
        subject, value = (_rename_term(term, old, new) for term in (quad.subject, quad.object))
        yield Triple(subject, quad.predicate, value)
    yield Triple(NamedNode(new), _make_term("fingerprint"), Literal(schema.fingerprint.hex()))


def _rename_term(term: Any, old: str, new: str) -> Any:
    if isinstance(term, NamedNode) and (term.value == old or term.value.startswith(f"{old}#")):
        return NamedNode(new + term.value.removeprefix(old))
    return term


def _topic_triples(subject: Node, topic: TopicDocument) -> Iterator[Triple]:
    yield from _make_triples(subject, name=topic.topic, fingerprint=topic.fingerprint, retain=topic.settings.retain)
    yield Triple(subject, _make_term("schema"), schema_iri(topic.fingerprint))
    yield from _make_triples(subject, **{term: getattr(topic.settings, name) for name, term in _STREAM_TERMS.items()})


def _config_triples(subject: Node, config: ConfigDocument) -> Iterator[Triple]:
    yield Triple(subject, _make_term("topic"), _topic_iri(config.topic))
    yield from _make_triples(subject, version=config.version, wanted=config.wanted, mode=config.demand.mode)
    yield from _make_triples(subject, defaultTolerance=config.demand.default_tolerance)
    yield from _make_triples(subject, **{term: getattr(config, name) for name, term in _STREAM_TERMS.items()})
    yield from _entry_triples(subject, "tolerance", config.demand.tolerance)


def _subscription_triples(subject: Node, document: SubscriptionDocument) -> Iterator[Triple]:
    yield Triple(subject, _make_term("topic"), _topic_iri(document.topic))
    yield from _make_triples(subject, identity=document.identity, emit=document.emit, since=document.since)
    yield from _make_triples(
        subject, defaultTolerance=document.default_tolerance, durable=document.durable, where=document.where
    )
    yield from _entry_triples(subject, "tolerance", document.tolerance)
    yield from _entry_triples(subject, "source", document.sources or {})
    yield from _make_triples(subject, exact=document.exact is True, log=document.log)
    for term, names in (("exactProperty", document.exact), ("selects", document.properties)):
        for name in names if isinstance(names, tuple) else ():
            yield from _make_triples(subject, **{term: name})


def _publisher_triples(subject: Node, publisher: PublisherDocument) -> Iterator[Triple]:
    yield Triple(subject, _make_term("topic"), _topic_iri(publisher.topic))
    yield from _make_triples(subject, name=publisher.name, incarnation=publisher.incarnation, since=publisher.since)
    if publisher.fingerprint:
        yield Triple(subject, _make_term("schema"), schema_iri(publisher.fingerprint))


def _make_triples(subject: Node, **values: Any) -> Iterator[Triple]:
    """Yield values under terms of the thinwire vocabulary; None is left out."""
    for term, value in values.items():
        if value is not None:
            yield Triple(subject, _make_term(term), Literal(value))


def _entry_triples(subject: Node, term: str, values: Mapping[str, Any]) -> Iterator[Triple]:
    """Yield one node with a name and its values per entry."""
    for name, value in values.items():
        node = BlankNode()
        yield Triple(subject, _make_term(term), node)
        for item in value if isinstance(value, list | tuple) else [value]:
            literal = item if isinstance(item, bool | int | float | str) else str(item)
            yield from _make_triples(node, runtimeName=name, value=literal)


def _topic_iri(topic: str) -> NamedNode:
    return NamedNode(f"urn:thinwire:topic:{topic}")


def _make_term(name: str) -> NamedNode:
    return NamedNode(TW + name)


_DESCRIBED: dict[type, tuple[str, Any]] = {
    TopicDocument: ("Topic", _topic_triples),
    ConfigDocument: ("Configuration", _config_triples),
    SubscriptionDocument: ("Subscription", _subscription_triples),
    PublisherDocument: ("Publisher", _publisher_triples),
}


class RdfProjection:
    """The graph of some documents."""

    def __init__(self) -> None:
        self._store = Store()

    def put(self, document: RegistryDocument | Schema) -> None:
        """Add a document, replacing the one under its key."""
        graph = iri(schema_key(document.name, document.fingerprint) if isinstance(document, Schema) else document.key)
        self._store.remove_graph(graph)
        self._store.extend([Quad(t.subject, t.predicate, t.object, graph) for t in triples_of(document)])

    def answer(self, query: str) -> dict[str, Any]:
        """Return the result of a query as JSON values, without a time limit.

        The result is `columns` and `rows`, an `answer` (ASK), or `turtle` (CONSTRUCT, DESCRIBE). `complete` is false if
        it was cut at MAX_ROWS.
        """
        check_query(query)
        try:
            found = self._store.query(query, prefixes=QUERY_PREFIXES, use_default_graph_as_union=True)
            if isinstance(found, QueryBoolean):
                return {"answer": bool(found)}
            if isinstance(found, QuerySolutions):
                columns = [variable.value for variable in found.variables]
                rows, complete = _take_rows([_plain(term) for term in solution] for solution in found)
                return {"columns": columns, "rows": rows, "complete": complete}
            triples, complete = _take_rows(found)
            text = serialize(triples, format=RdfFormat.TURTLE, prefixes=QUERY_PREFIXES)
            assert text is not None
            return {"turtle": text.decode(), "complete": complete}
        except SyntaxError as problem:
            detail = f"not a SPARQL query (SELECT, ASK, CONSTRUCT or DESCRIBE): {problem.msg}"
            raise RegistryError(detail) from None
        except (OSError, RuntimeError) as problem:
            raise RegistryError(f"the query cannot be answered: {problem}") from None

    async def query(self, query: str, *, timeout: float = TIMEOUT) -> dict[str, Any]:
        """Return the result of `answer`; `RegistryError` after the timeout."""
        result: Future[dict[str, Any]] = Future()
        result.set_running_or_notify_cancel()  # the timeout cannot cancel the query

        def work() -> None:
            try:
                result.set_result(self.answer(query))
            except Exception as error:
                result.set_exception(error)

        _start_thread(work)
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.wrap_future(result)
        except TimeoutError:
            raise RegistryError("the query takes too long: make it narrower, or add LIMIT", seconds=timeout) from None


async def query_registry(bucket: Bucket, query: str, *, timeout: float = TIMEOUT) -> dict[str, Any]:
    """Query the documents of the registry bucket. The query runs in this process."""
    documents, graph = DocumentCache(), RdfProjection()
    for entry in await bucket.entries():
        documents.put(entry)
        document = documents.find(entry.key)
        if document is not None:
            graph.put(document)
    return await graph.query(query, timeout=timeout)


def _start_thread(work: Callable[[], None]) -> None:
    before = threading.stack_size(_STACK)
    try:
        threading.Thread(target=work, name="sparql", daemon=True).start()
    finally:
        threading.stack_size(before)


def check_query(query: str) -> None:
    """Refuse a query that is too long or that would send a request to another machine."""
    if len(query) > MAX_QUERY:
        raise RegistryError("the query is too long", size=len(query), limit=MAX_QUERY)
    if re.search(r"\\[uU]", query):
        raise RegistryError("write characters as they are, not as \\u escapes")
    if _SERVICE.search(_TOKENS.sub(" ", query)):
        raise RegistryError("SERVICE is not allowed: queries see the registry only")


def _take_rows(found: Iterable[Any]) -> tuple[list[Any], bool]:
    rows: Iterator[Any] = iter(found)
    taken = list(islice(rows, MAX_ROWS))
    return taken, next(rows, None) is None


def _plain(term: Any) -> Any:
    if isinstance(term, Literal):
        return _literal_value(term)
    if term is None or isinstance(term, NamedNode):
        return None if term is None else term.value
    return str(term) if isinstance(term, BlankNode) else repr(term)


def _literal_value(literal: Literal) -> Any:
    """Return the JSON value of a literal; its text if JSON has no such value or the text is invalid for its type."""
    read = _READERS.get(literal.datatype.value.removeprefix(XSD), str)
    try:
        value = read(literal.value)
    except ValueError:
        return literal.value
    return value if not isinstance(value, float) or math.isfinite(value) else literal.value
