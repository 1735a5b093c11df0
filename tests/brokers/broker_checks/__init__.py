"""Checks that every broker must pass. A check is a coroutine over a `Site`; each broker provides one.

>>> import asyncio
>>> async def run_checks():
...     for check in CHECKS[:2]:
...         await run(check, LocalSite())
>>> asyncio.run(run_checks())
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable

from broker_checks import bucket_checks as documents
from broker_checks import connection_checks as breaking
from broker_checks import connection_checks as closing
from broker_checks import listener_checks as listening
from broker_checks import log_checks as reading
from broker_checks import log_checks as seeking
from broker_checks.check_site import LocalSite, Site

__all__ = ["CHECKS", "LocalSite", "Site", "run"]

Check = Callable[[Site], Awaitable[None]]

CHECKS: tuple[Check, ...] = tuple(
    value
    for module in dict.fromkeys((reading, breaking, documents, listening, closing, seeking))
    for name, value in vars(module).items()
    if name.startswith("check_")
)


async def run(check: Check, site: Site, seconds: float = 30.0) -> None:
    """Run a check. A check that hangs or leaves an unretrieved exception of a task has failed."""
    unretrieved: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: unretrieved.append(f"{context['message']}: {context}"))
    try:
        async with asyncio.timeout(seconds):
            await check(site)
    finally:
        await site.close()
        gc.collect()  # asyncio reports an unretrieved exception when the task is collected
        loop.set_exception_handler(None)
    assert not unretrieved, unretrieved
