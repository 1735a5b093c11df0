"""Memory broker: the complete `Broker` protocol in one process, with fault injection. Serves `memory://name`.

>>> import asyncio
>>> async def interrupt_reader():
...     server = LocalServer()
...     async with LocalBroker(server) as writer, LocalBroker(server) as subscriber:
...         await writer.ensure_log("rooms", ["rooms.*"])
...         reader = await subscriber.read("rooms", first=1)
...         server.cut(subscriber)
...         await writer.append("rooms", "rooms.a", b"21.5")
...         missing = await reader.next(timeout=0.01)
...         server.restore(subscriber)
...         message = await reader.next()
...         return missing, message.payload
>>> asyncio.run(interrupt_reader())
(None, b'21.5')
"""

from thinwire.brokers.memory.broker import LocalBroker
from thinwire.brokers.memory.server import LocalServer

__all__ = ["LocalBroker", "LocalServer"]
