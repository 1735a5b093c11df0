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

from thinwire.transports.local.broker import LocalBroker
from thinwire.transports.local.bucket import LocalBucket
from thinwire.transports.local.reader import LocalReader
from thinwire.transports.local.server import LocalServer
from thinwire.transports.local.words import LocalListener

__all__ = ["LocalBroker", "LocalBucket", "LocalListener", "LocalReader", "LocalServer"]
