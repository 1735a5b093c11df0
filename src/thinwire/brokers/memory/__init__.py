"""A broker in memory with the whole `Broker` protocol, faults included: for tests, and behind `memory://name`.

>>> import asyncio
>>> async def story():
...     server = LocalServer()
...     async with LocalBroker(server) as here, LocalBroker(server) as there:
...         await here.open_log("rooms", ["rooms.*"])
...         reader = await there.read("rooms", first=1)
...         server.cut(there)
...         await here.append("rooms", "rooms.a", b"21.5")
...         cut = await reader.next(timeout=0.01)
...         server.restore(there)
...         back = await reader.next()
...         return cut, back.payload
>>> asyncio.run(story())
(None, b'21.5')
"""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.brokers.memory.broker import LocalBroker, LocalBucket
    from thinwire.brokers.memory.connection import LocalReader
    from thinwire.brokers.memory.server import LocalListener, LocalServer
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "broker": "LocalBroker LocalBucket",
            "connection": "LocalReader",
            "server": "LocalListener LocalServer",
        },
    )

__all__ = [
    "LocalBroker",
    "LocalBucket",
    "LocalListener",
    "LocalReader",
    "LocalServer",
]
