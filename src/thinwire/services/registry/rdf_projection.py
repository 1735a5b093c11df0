"""Ask the graph in a process of its own, which is killed when it takes too long or too much memory.

The documents of the registry as triples.

Schemas are told in the words of `thinwire.schema.turtle` (schema.org, QUDT, WGS84 and ours); topics, configurations,
subscriptions and publishers in ours. Every document has an IRI of its own:

    urn:thinwire:topic:building.rooms                urn:thinwire:schema:<fingerprint>[#property]
    urn:thinwire:config:building.rooms               urn:thinwire:subscription:building.rooms.hvac
    urn:thinwire:publisher:building.rooms.p1

The registry as a graph that answers SPARQL.

The documents are the truth; the graph is projected from them, one named graph a document, so that a change replaces
exactly what one document said. Queries see the union of all. Nothing can be written through it.

The store is pyoxigraph: of the two that hold triples in memory and speak all of SPARQL it is the faster one, six times
at loading and up to twenty times at the questions asked here (`benchmarks/stores.py` measures it against rdflib,
docs/registry.md has the table), and schemas are read with it anyway.

>>> from thinwire.topics.topic_documents import TopicDocument
>>> graph = RdfProjection()
>>> graph.put(TopicDocument("building.rooms", "00ff00ff00ff00ff"))
>>> graph.answer('SELECT ?name WHERE { ?topic a tw:Topic ; tw:name ?name }')
{'columns': ['name'], 'rows': [['building.rooms']], 'complete': True}
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, Store, Triple, parse

from thinwire.errors import RegistryError
from thinwire.schema import Schema, to_turtle
from thinwire.schema.rdf_graph import PREFIXES, RDF, TW, XSD
from thinwire.services.registry import sparql_process as sparql
from thinwire.topics.topic_documents import Document, PublisherDocument, SubscriptionDocument, TopicDocument
from thinwire.topics.topic_settings import ConfigDocument, schema_key

_TYPE = NamedNode(f"{RDF}type")
_LINK = {
    "format": "format",
    "key_frame_interval": "keyFrameInterval",
    "max_silence": "maxSilence",
    "audit_every": "auditEvery",
    "late_policy": "latePolicy",
    "dictionaries": "dictionaries",
}
Node = NamedNode | BlankNode


def schema_iri(fingerprint: bytes | str) -> NamedNode:
    """What a version of a schema is called."""
    return NamedNode(f"urn:thinwire:schema:{fingerprint if isinstance(fingerprint, str) else fingerprint.hex()}")


def iri(key: str) -> NamedNode:
    """What the document under a key is called."""
    kind, _, rest = key.partition(".")
    return schema_iri(rest.rpartition(".")[2]) if kind == "schema" else NamedNode(f"urn:thinwire:{kind}:{rest}")


def triples_of(document: Document | Schema) -> list[Triple]:
    """What a document says."""
    if isinstance(document, Schema):
        return list(_schema(document))
    subject = iri(document.key)
    return [Triple(subject, _TYPE, _make_term(_KINDS[type(document)])), *_DESCRIBED[type(document)](subject, document)]


def _schema(schema: Schema) -> Iterator[Triple]:
    """The schema as Turtle tells it, under the name of its fingerprint: versions are told apart by nothing else."""
    old = f"urn:thinwire:{quote(schema.name, safe='')}:{schema.version}"
    new = schema_iri(schema.fingerprint).value
    for quad in parse(to_turtle(schema), format=RdfFormat.TURTLE):
        subject, value = (_renamed(term, old, new) for term in (quad.subject, quad.object))
        yield Triple(subject, quad.predicate, value)
    yield Triple(NamedNode(new), _make_term("fingerprint"), Literal(schema.fingerprint.hex()))


def _renamed(term: Any, old: str, new: str) -> Any:
    if isinstance(term, NamedNode) and (term.value == old or term.value.startswith(f"{old}#")):
        return NamedNode(new + term.value.removeprefix(old))
    return term


def _topic(subject: Node, topic: TopicDocument) -> Iterator[Triple]:
    yield from _make_triples(subject, name=topic.topic, fingerprint=topic.fingerprint, retain=topic.settings.retain)
    yield Triple(subject, _make_term("schema"), schema_iri(topic.fingerprint))
    yield from _make_triples(subject, **{word: getattr(topic.settings, name) for name, word in _LINK.items()})


def _config(subject: Node, config: ConfigDocument) -> Iterator[Triple]:
    yield Triple(subject, _make_term("topic"), _topic_iri(config.topic))
    yield from _make_triples(subject, version=config.version, wanted=config.wanted, mode=config.demand.mode)
    yield from _make_triples(subject, defaultTolerance=config.demand.default_tolerance)
    yield from _make_triples(subject, **{word: getattr(config, name) for name, word in _LINK.items()})
    yield from _listed(subject, "tolerance", config.demand.tolerance)


def _subscription(subject: Node, asked: SubscriptionDocument) -> Iterator[Triple]:
    yield Triple(subject, _make_term("topic"), _topic_iri(asked.topic))
    yield from _make_triples(subject, identity=asked.identity, emit=asked.emit, since=asked.since)
    yield from _make_triples(
        subject, defaultTolerance=asked.default_tolerance, durable=asked.durable, where=asked.where
    )
    yield from _listed(subject, "tolerance", asked.tolerance)
    yield from _listed(subject, "source", asked.sources or {})
    yield from _make_triples(subject, exact=asked.exact is True, log=asked.log)
    for word, names in (("exactProperty", asked.exact), ("selects", asked.properties)):
        for name in names if isinstance(names, tuple) else ():
            yield from _make_triples(subject, **{word: name})


def _publisher(subject: Node, publisher: PublisherDocument) -> Iterator[Triple]:
    yield Triple(subject, _make_term("topic"), _topic_iri(publisher.topic))
    yield from _make_triples(subject, name=publisher.name, incarnation=publisher.incarnation, since=publisher.since)
    if publisher.fingerprint:
        yield Triple(subject, _make_term("schema"), schema_iri(publisher.fingerprint))


def _make_triples(subject: Node, **values: Any) -> Iterator[Triple]:
    """Plain values under words of ours; None says nothing."""
    for word, value in values.items():
        if value is not None:
            yield Triple(subject, _make_term(word), Literal(value))


def _listed(subject: Node, word: str, values: Mapping[str, Any]) -> Iterator[Triple]:
    """A value per property, each a node of its own."""
    for name, value in values.items():
        each = BlankNode()
        yield Triple(subject, _make_term(word), each)
        for one in value if isinstance(value, list | tuple) else [value]:
            yield from _make_triples(
                each, runtimeName=name, value=one if isinstance(one, bool | int | float | str) else str(one)
            )


def _topic_iri(topic: str) -> NamedNode:
    return NamedNode(f"urn:thinwire:topic:{topic}")


def _make_term(name: str) -> NamedNode:
    return NamedNode(TW + name)


_KINDS = {
    TopicDocument: "Topic",
    ConfigDocument: "Configuration",
    SubscriptionDocument: "Subscription",
    PublisherDocument: "Publisher",
}
_DESCRIBED: dict[type, Any] = {
    TopicDocument: _topic,
    ConfigDocument: _config,
    SubscriptionDocument: _subscription,
    PublisherDocument: _publisher,
}


QUERY_PREFIXES = {**PREFIXES, "rdf": RDF, "xsd": XSD}
"""prefixes that a query need not declare"""


class RdfProjection:
    """The graph of some documents."""

    def __init__(self) -> None:
        self._store = Store()

    def __len__(self) -> int:
        return len(self._store)

    def put(self, document: Document | Schema) -> None:
        """Take a document in, in place of what was under its key."""
        graph = iri(schema_key(document.name, document.fingerprint) if isinstance(document, Schema) else document.key)
        self._replace(graph, [Quad(t.subject, t.predicate, t.object, graph) for t in triples_of(document)])

    def remove(self, key: str) -> None:
        """Forget what the document under a key said."""
        self._replace(iri(key), [])

    def answer(self, query: str) -> dict[str, Any]:
        """The answer to a query as plain JSON values; `RegistryError` says why there is none.

        It takes as long as it takes: `thinwire.services.registry.rdf_projection` sets a limit to it.
        """
        try:
            return sparql.answer(self._store, query, QUERY_PREFIXES)
        except sparql.QueryRefused as problem:
            raise RegistryError(str(problem)) from None

    def dump(self) -> bytes:
        """All triples as N-Quads."""
        dumped = self._store.dump(format=RdfFormat.N_QUADS)
        assert dumped is not None
        return dumped

    def _replace(self, graph: NamedNode, quads: list[Quad]) -> None:
        self._store.remove_graph(graph)
        self._store.extend(quads)


TIMEOUT = 15.0
MEMORY = 2 << 30 if sys.platform == "linux" else 0
"""bytes a query may take; elsewhere processes cannot be held to it"""

_log = logging.getLogger("thinwire.registry")


async def ask_graph(graph: RdfProjection, query: str, *, timeout: float = TIMEOUT) -> dict[str, Any]:
    """The answer to a query as plain JSON values; `RegistryError` says why there is none."""
    try:
        sparql.check(query)
    except sparql.QueryRefused as problem:
        raise RegistryError(str(problem)) from None
    request = {"query": query, "prefixes": QUERY_PREFIXES, "rows": sparql.MAX_ROWS, "memory": MEMORY}
    triples = await asyncio.to_thread(graph.dump)
    output = await _run(json.dumps(request).encode() + b"\n" + triples, timeout)
    answer: dict[str, Any] = json.loads(output)
    if "error" in answer:
        raise RegistryError(answer["error"])
    return answer


async def _run(request: bytes, timeout: float) -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", sparql.__file__, stdin=pipe, stdout=pipe, stderr=pipe
    )
    try:
        async with asyncio.timeout(timeout):
            output, complaint = await process.communicate(request)
    except TimeoutError:
        raise RegistryError("the query takes too long: make it narrower, or add LIMIT", seconds=timeout) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    if process.returncode:
        _log.debug("a query ended with %s: %s", process.returncode, complaint.decode(errors="replace"))
        raise RegistryError("the query takes too much: make it narrower, or add LIMIT", memory=MEMORY)
    return output
