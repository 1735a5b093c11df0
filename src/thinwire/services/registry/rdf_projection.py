"""The registry's documents as an RDF graph that answers SPARQL queries.

Schemas use the vocabulary of `thinwire.schema.turtle` (schema.org, QUDT, WGS84 and thinwire); topics, configurations,
subscriptions and publishers use that of thinwire. Every document has an IRI:

    urn:thinwire:topic:building.rooms                urn:thinwire:schema:<fingerprint>[#property]
    urn:thinwire:config:building.rooms               urn:thinwire:subscription:building.rooms.hvac
    urn:thinwire:publisher:building.rooms.p1

Each document is a named graph of its own, so that a change replaces the triples of one document. Queries see the union
of all graphs. They cannot change the documents.

The store is pyoxigraph, which also reads schemas. `lab/benchmarks/stores.py` compares it with rdflib.

>>> from thinwire.topics.topic_documents import TopicDocument
>>> graph = RdfProjection()
>>> graph.put(TopicDocument("building.rooms", "00ff00ff00ff00ff"))
>>> graph.answer('SELECT ?name WHERE { ?topic a tw:Topic ; tw:name ?name }')
{'columns': ['name'], 'rows': [['building.rooms']], 'complete': True}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, Store, Triple, parse

from thinwire.brokers.protocol import Bucket
from thinwire.schema import Schema, to_turtle
from thinwire.schema.rdf_graph import RDF, TW
from thinwire.services.registry.document_cache import DocumentCache
from thinwire.services.registry.sparql import TIMEOUT, query_store, run_query
from thinwire.topics.names import schema_key
from thinwire.topics.topic_documents import PublisherDocument, RegistryDocument, SubscriptionDocument, TopicDocument
from thinwire.topics.topic_settings import ConfigDocument

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
    """IRI of a version of a schema."""
    return NamedNode(f"urn:thinwire:schema:{fingerprint if isinstance(fingerprint, str) else fingerprint.hex()}")


def iri(key: str) -> NamedNode:
    """IRI of the document under a key."""
    kind, _, rest = key.partition(".")
    return schema_iri(rest.rpartition(".")[2]) if kind == "schema" else NamedNode(f"urn:thinwire:{kind}:{rest}")


def triples_of(document: RegistryDocument | Schema) -> list[Triple]:
    """The triples of a document."""
    if isinstance(document, Schema):
        return list(_schema_triples(document))
    subject = iri(document.key)
    name, describe = _DESCRIBED[type(document)]
    return [Triple(subject, _TYPE, _make_term(name)), *describe(subject, document)]


def _schema_triples(schema: Schema) -> Iterator[Triple]:
    """The triples of its Turtle form, under the IRI of its fingerprint, which identifies the version."""
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
    """Values under terms of the thinwire vocabulary; None is left out."""
    for term, value in values.items():
        if value is not None:
            yield Triple(subject, _make_term(term), Literal(value))


def _entry_triples(subject: Node, term: str, values: Mapping[str, Any]) -> Iterator[Triple]:
    """One node with a name and its values per entry."""
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

    def __len__(self) -> int:
        return len(self._store)

    def put(self, document: RegistryDocument | Schema) -> None:
        """Add a document, replacing the one under its key."""
        graph = iri(schema_key(document.name, document.fingerprint) if isinstance(document, Schema) else document.key)
        self._replace(graph, [Quad(t.subject, t.predicate, t.object, graph) for t in triples_of(document)])

    def remove(self, key: str) -> None:
        """Remove the triples of the document under a key."""
        self._replace(iri(key), [])

    def answer(self, query: str) -> dict[str, Any]:
        """The result of a query as JSON values, without a time limit; see `query_store`."""
        return query_store(self._store, query)

    async def query(self, query: str, *, timeout: float = TIMEOUT) -> dict[str, Any]:
        """The result of a query as JSON values; `RegistryError` after the timeout."""
        return await run_query(self._store, query, timeout=timeout)

    def _replace(self, graph: NamedNode, quads: list[Quad]) -> None:
        self._store.remove_graph(graph)
        self._store.extend(quads)


async def query_registry(bucket: Bucket, query: str, *, timeout: float = TIMEOUT) -> dict[str, Any]:
    """Query the documents of the registry bucket. The query runs in this process."""
    documents, graph = DocumentCache(), RdfProjection()
    for entry in await bucket.entries():
        documents.put(entry)
        document = documents.find(entry.key)
        if document is not None:
            graph.put(document)
    return await graph.query(query, timeout=timeout)
