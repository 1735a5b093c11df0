"""The registry as a graph that answers SPARQL.

The documents are the truth; the graph is projected from them, one named graph a document, so that a change replaces
exactly what one document said. Queries see the union of all. Nothing can be written through it.

The store is pyoxigraph: of the two that hold triples in memory and speak all of SPARQL it is the faster one, six times
at loading and up to twenty times at the questions asked here (`benchmarks/stores.py` measures it against rdflib,
docs/registry.md has the table), and schemas are read with it anyway.

>>> from thinwire.topics.topic_documents import TopicDocument
>>> graph = Projection()
>>> graph.put(TopicDocument("building.rooms", "00ff00ff00ff00ff"))
>>> graph.answer('SELECT ?name WHERE { ?topic a tw:Topic ; tw:name ?name }')
{'columns': ['name'], 'rows': [['building.rooms']], 'complete': True}
"""

from __future__ import annotations

from typing import Any

from pyoxigraph import NamedNode, Quad, RdfFormat, Store

from thinwire.errors import RegistryError
from thinwire.schema import Schema
from thinwire.schema.rdf_graph_vocabulary import PREFIXES, RDF, XSD
from thinwire.services.registry import sparql_process as sparql
from thinwire.services.registry.rdf_projection_triples import iri, triples_of
from thinwire.topics.topic_documents import Document
from thinwire.topics.topic_settings import schema_key

QUERY_PREFIXES = {**PREFIXES, "rdf": RDF, "xsd": XSD}
"""prefixes that a query need not declare"""


class Projection:
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
        except sparql.Refused as problem:
            raise RegistryError(str(problem)) from None

    def dump(self) -> bytes:
        """All triples as N-Quads."""
        dumped = self._store.dump(format=RdfFormat.N_QUADS)
        assert dumped is not None
        return dumped

    def _replace(self, graph: NamedNode, quads: list[Quad]) -> None:
        self._store.remove_graph(graph)
        self._store.extend(quads)
