"""What every broker must do, written once: a check is a coroutine over a `Site`, and every transport enrols one.

>>> import asyncio
>>> async def story():
...     for check in CHECKS[:2]:
...         await run(check, LocalSite())
>>> asyncio.run(story())
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable

from thinwire.testing.broker_checks import bucket_checks as documents
from thinwire.testing.broker_checks import connection_checks as breaking
from thinwire.testing.broker_checks import connection_checks as closing
from thinwire.testing.broker_checks import listener_checks as words
from thinwire.testing.broker_checks import log_checks as reading
from thinwire.testing.broker_checks import log_checks as seeking
from thinwire.testing.broker_checks.check_site import LocalSite, Site

__all__ = ["CHECKS", "LocalSite", "Site", "run"]

Check = Callable[[Site], Awaitable[None]]

CHECKS: tuple[Check, ...] = tuple(
    value
    for module in dict.fromkeys((reading, breaking, documents, words, closing, seeking))
    for name, value in vars(module).items()
    if name.startswith("check_")
)


async def run(check: Check, site: Site, seconds: float = 30.0) -> None:
    """Hold a site to a check; one that hangs has failed, and so has one in which a task died unheard."""
    unheard: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: unheard.append(f"{context['message']}: {context}"))
    try:
        async with asyncio.timeout(seconds):
            await check(site)
    finally:
        await site.close()
        gc.collect()  # an exception that nobody asks for is told when its task goes
        loop.set_exception_handler(None)
    assert not unheard, unheard
