"""SPARQL queries on a store, with limits on query size, result size and time.

The store cannot interrupt a query. A query therefore runs in a thread of its own; after the timeout the caller gets an
error, and the thread ends with the query or with the process. The thread has a large stack: the parser of the store is
recursive, and a deeply nested query would otherwise end the process.
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode, QueryBoolean, QuerySolutions, RdfFormat, Store, serialize

from thinwire.errors import RegistryError
from thinwire.schema.rdf_graph import PREFIXES, RDF, XSD

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


async def run_query(store: Store, query: str, *, timeout: float = TIMEOUT) -> dict[str, Any]:
    """The result of `query_store`; `RegistryError` after the timeout."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[dict[str, Any]] = loop.create_future()

    def finish(found: dict[str, Any] | None, problem: Exception | None) -> None:
        if result.done():
            return
        if found is not None:
            result.set_result(found)
        else:
            result.set_exception(problem or RegistryError("the query has no result"))

    def work() -> None:
        found, problem = None, None
        try:
            found = query_store(store, query)
        except Exception as error:
            problem = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, found, problem)

    _start_thread(work)
    try:
        async with asyncio.timeout(timeout):
            return await result
    except TimeoutError:
        raise RegistryError("the query takes too long: make it narrower, or add LIMIT", seconds=timeout) from None


def _start_thread(work: Callable[[], None]) -> None:
    before = threading.stack_size(_STACK)
    try:
        threading.Thread(target=work, name="sparql", daemon=True).start()
    finally:
        threading.stack_size(before)


def query_store(store: Store, query: str) -> dict[str, Any]:
    """Run a query without a time limit.

    The result is `columns` and `rows`, an `answer` (ASK), or `turtle` (CONSTRUCT, DESCRIBE). `complete` is false if the
    result was cut at MAX_ROWS.
    """
    check_query(query)
    try:
        found = store.query(query, prefixes=QUERY_PREFIXES, use_default_graph_as_union=True)
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
    """The JSON value of a literal; its text if JSON has no such value or the text is invalid for its type."""
    read = _READERS.get(literal.datatype.value.removeprefix(XSD), str)
    try:
        value = read(literal.value)
    except ValueError:
        return literal.value
    return value if not isinstance(value, float) or math.isfinite(value) else literal.value
