"""Compare pyoxigraph and rdflib as stores of the registry's graph, on the registry's own triples.

    python lab/benchmarks/stores.py [--topics 1000] [--properties 10]

Both have one named graph for each document, as in `thinwire.services.registry.rdf_projection`, and get terms, so no
parser is measured. Queries have the rarest pattern first, for a store without query optimisation. Both must return the
same results. Times are the minimum of three (of one for loading, replacing, and more than a second); ratios are within
this run. Documents and queries are ours.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyoxigraph

from thinwire.codec import Demand
from thinwire.schema import Property, Schema
from thinwire.services.registry.rdf_projection import QUERY_PREFIXES, iri, triples_of
from thinwire.topics.names import schema_key
from thinwire.topics.topic_documents import RegistryDocument, SubscriptionDocument, TopicDocument
from thinwire.topics.topic_settings import ConfigDocument

UNITS = ("qudt:DEG_C", "qudt:W", "qudt:PERCENT", "qudt:PA", None)
CHANGED = 20
QUERIES = {
    "topics that measure watts": """
        SELECT DISTINCT ?name WHERE {
            ?p tw:hasUnit unit:W . ?schema tw:property ?p . ?topic tw:schema ?schema ; tw:name ?name }
        ORDER BY ?name""",
    "subscriptions finer than 0.2": """
        SELECT ?topic ?identity ?property ?tolerance WHERE {
            ?s a tw:Subscription ; tw:identity ?identity ; tw:topic ?named ; tw:tolerance ?t . ?named tw:name ?topic .
            ?t tw:runtimeName ?property ; tw:value ?tolerance . FILTER(?tolerance < 0.2) }
        ORDER BY ?topic ?identity ?property""",
    "properties by type": """
        SELECT ?type (COUNT(?p) AS ?count) WHERE { ?p a tw:EventProperty ; tw:runtimeType ?type }
        GROUP BY ?type ORDER BY ?type""",
}

Terms = list[tuple[Any, list[Any]]]
"""terms of a store, per graph"""
Graphs = list[tuple[pyoxigraph.NamedNode, list[pyoxigraph.Triple]]]


class Oxigraph:
    """The store of the registry."""

    name = "pyoxigraph"

    def __init__(self) -> None:
        self.store = pyoxigraph.Store()

    def make_terms(self, graphs: Graphs) -> Terms:
        return [(g, [pyoxigraph.Quad(t.subject, t.predicate, t.object, g) for t in triples]) for g, triples in graphs]

    def load(self, graphs: Terms) -> None:
        for _, quads in graphs:
            self.store.extend(quads)

    def replace(self, graphs: Terms) -> None:
        for graph, quads in graphs:
            self.store.remove_graph(graph)
            self.store.extend(quads)

    def query(self, query: str) -> list[list[str]]:
        found = self.store.query(query, prefixes=QUERY_PREFIXES, use_default_graph_as_union=True)
        return [[term.value for term in row] for row in found]  # type: ignore[union-attr]


class Rdflib:
    """The most common RDF store in Python."""

    name = "rdflib"

    def __init__(self) -> None:
        self.rdf = importlib.import_module("rdflib")
        self.store = self.rdf.Dataset(default_union=True)

    def make_terms(self, graphs: Graphs) -> Terms:
        return [
            (self._term(g), [tuple(map(self._term, (t.subject, t.predicate, t.object))) for t in triples])
            for g, triples in graphs
        ]

    def load(self, graphs: Terms) -> None:
        for name, triples in graphs:
            self.store.addN((*triple, self.store.graph(name)) for triple in triples)

    def replace(self, graphs: Terms) -> None:
        for name, _ in graphs:
            self.store.graph(name).remove((None, None, None))
        self.load(graphs)

    def query(self, query: str) -> list[list[str]]:
        return [[str(term) for term in row] for row in self.store.query(query, initNs=QUERY_PREFIXES)]

    def _term(self, term: Any) -> Any:
        if isinstance(term, pyoxigraph.NamedNode):
            return self.rdf.URIRef(term.value)
        if isinstance(term, pyoxigraph.BlankNode):
            return self.rdf.BNode(term.value)
        return self.rdf.Literal(term.value, datatype=self.rdf.URIRef(term.datatype.value))


def documents(topics: int, properties: int) -> Iterator[RegistryDocument | Schema]:
    """Generate a schema, settings, a configuration and a subscription for each topic."""
    for number in range(topics):
        measured = [
            Property(f"p{i}", "number", step="0.1", minimum=0, maximum=100, unit=UNITS[(number + i) % len(UNITS)])
            for i in range(properties - 2)
        ]
        header = [Property("time", "timestamp", "header"), Property("id", "string", "dimension")]
        schema = Schema(f"plant.line{number}", [*header, *measured])
        yield schema
        yield TopicDocument(schema.name, schema.fingerprint.hex())
        yield ConfigDocument(schema.name, 1, True, Demand({"p0": 0.5}))
        yield SubscriptionDocument(schema.name, "hvac", {"p0": (number % 10) / 10 + 0.05})


def changes(topics: int) -> Iterator[RegistryDocument]:
    """Generate new configurations of some topics."""
    for number in range(min(topics, CHANGED)):
        yield ConfigDocument(f"plant.line{number}", 2, True, Demand({"p0": 0.25, "p1": 1}))


def graphs_of(listed: Iterator[Any]) -> Graphs:
    return [(iri(schema_key(d.name, d.fingerprint) if isinstance(d, Schema) else d.key), triples_of(d)) for d in listed]


def seconds(work: Callable[[], Any], rounds: int = 3) -> float:
    """Return the minimum of some rounds, or the first one above a second."""
    times: list[float] = []
    while len(times) < rounds and not any(seconds > 1.0 for seconds in times):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(store: Any, loaded: Graphs, changed: Graphs) -> tuple[dict[str, float], list[list[list[str]]]]:
    first, second = store.make_terms(loaded), store.make_terms(changed)
    times = {"load": seconds(lambda: store.load(first), 1)}
    times[f"replace {len(second)} documents"] = seconds(lambda: store.replace(second), 1)
    times |= {f"query: {name}": seconds(partial(store.query, query)) for name, query in QUERIES.items()}
    return times, [store.query(query) for query in QUERIES.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare stores for the registry's graph.")
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--properties", type=int, default=10)
    given = parser.parse_args()
    loaded, changed = graphs_of(documents(given.topics, given.properties)), graphs_of(changes(given.topics))
    count = sum(len(triples) for _, triples in loaded)
    print(f"{given.topics} topics x {given.properties} properties: {len(loaded)} documents, {count} triples")
    times, results = measure(Oxigraph(), loaded, changed)
    try:
        others, same = measure(Rdflib(), loaded, changed)
    except ModuleNotFoundError:
        print("rdflib is not installed (pip install rdflib): no ratios")
        others, same = {}, results
    if same != results:
        raise SystemExit("the results differ")
    print(f"{'':<45}{'pyoxigraph':>12}{'rdflib':>12}{'ratio':>8}")
    for what, ours in times.items():
        theirs = f"{others[what] * 1000:9.1f} ms{others[what] / ours:7.0f}x" if others else ""
        print(f"{what:<45}{ours * 1000:9.1f} ms{theirs}")


if __name__ == "__main__":
    main()
