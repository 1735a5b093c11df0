"""Ask the graph in a process of its own, which is killed when it takes too long or too much memory."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

from thinwire.errors import RegistryError
from thinwire.services.registry import sparql_process as sparql
from thinwire.services.registry.rdf_projection_projection import QUERY_PREFIXES, Projection

TIMEOUT = 15.0
MEMORY = 2 << 30 if sys.platform == "linux" else 0
"""bytes a query may take; elsewhere processes cannot be held to it"""

_log = logging.getLogger("thinwire.registry")


async def ask_graph(graph: Projection, query: str, *, timeout: float = TIMEOUT) -> dict[str, Any]:
    """The answer to a query as plain JSON values; `RegistryError` says why there is none."""
    try:
        sparql.check(query)
    except sparql.Refused as problem:
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
