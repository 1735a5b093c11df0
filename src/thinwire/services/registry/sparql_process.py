"""Answer one SPARQL query on some triples, within limits; also as a process of its own.

A query can ask for more work and memory than a machine has, and no store stops one half-way. So the service runs this
file as a program: a request on standard input, the answer on standard output, killed when it takes too long. It imports
nothing of ours, so that it starts in a tenth of a second.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode, QueryBoolean, QuerySolutions, RdfFormat, Store, serialize

MAX_QUERY = 65_536
MAX_ROWS = 10_000
_XSD = "http://www.w3.org/2001/XMLSchema#"
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


class QueryRefused(ValueError):
    """A query that is not answered, and why."""


def answer(store: Store, query: str, prefixes: dict[str, str], rows: int = MAX_ROWS) -> dict[str, Any]:
    """The answer as plain JSON values: columns and rows, a truth, or Turtle; `complete` is false where it was cut."""
    check(query)
    try:
        found = store.query(query, prefixes=prefixes, use_default_graph_as_union=True)
        if isinstance(found, QueryBoolean):
            return {"answer": bool(found)}
        if isinstance(found, QuerySolutions):
            return _table(found, rows)
        return _graph(found, prefixes, rows)
    except SyntaxError as problem:
        raise QueryRefused(f"not a SPARQL query (SELECT, ASK, CONSTRUCT or DESCRIBE): {problem.msg}") from None
    except (OSError, RuntimeError) as problem:
        raise QueryRefused(f"the query cannot be answered: {problem}") from None


def check(query: str) -> None:
    """Refuse what is too long, and what would send this machine to ask another one."""
    if len(query) > MAX_QUERY:
        raise QueryRefused(f"the query is too long: {len(query)} characters, at most {MAX_QUERY}")
    if re.search(r"\\[uU]", query):
        raise QueryRefused("write characters as they are, not as \\u escapes")
    if _SERVICE.search(_TOKENS.sub(" ", query)):
        raise QueryRefused("SERVICE is not allowed: the registry asks no other machine")


def _table(found: QuerySolutions, rows: int) -> dict[str, Any]:
    columns = [variable.value for variable in found.variables]
    listed: list[list[Any]] = []
    for solution in found:
        if len(listed) == rows:
            return {"columns": columns, "rows": listed, "complete": False}
        listed.append([_plain(term) for term in solution])
    return {"columns": columns, "rows": listed, "complete": True}


def _graph(found: Any, prefixes: dict[str, str], rows: int) -> dict[str, Any]:
    triples: list[Any] = []
    for triple in found:
        if len(triples) == rows:
            break
        triples.append(triple)
    complete = next(found, None) is None
    text = serialize(triples, format=RdfFormat.TURTLE, prefixes=prefixes)
    assert text is not None
    return {"turtle": text.decode(), "complete": complete}


def _plain(term: Any) -> Any:
    if isinstance(term, Literal):
        return _value(term)
    if term is None or isinstance(term, NamedNode):
        return None if term is None else term.value
    return str(term) if isinstance(term, BlankNode) else repr(term)


def _value(literal: Literal) -> Any:
    """The value of a literal; its text where JSON has no such value, or the text is none of its type."""
    read = _READERS.get(literal.datatype.value.removeprefix(_XSD), str)
    try:
        value = read(literal.value)
    except ValueError:
        return literal.value
    return value if not isinstance(value, float) or math.isfinite(value) else literal.value


def main() -> None:
    """A request as one line of JSON and the triples as N-Quads in; the answer as JSON out."""
    request = json.loads(sys.stdin.buffer.readline())
    if request["memory"]:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
    store = Store()
    store.bulk_load(sys.stdin.buffer.read(), format=RdfFormat.N_QUADS)
    try:
        said = answer(store, request["query"], request["prefixes"], request["rows"])
    except QueryRefused as problem:
        said = {"error": str(problem)}
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
