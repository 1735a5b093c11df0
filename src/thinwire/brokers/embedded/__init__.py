"""A real broker on this machine, for one process: what `embedded://`, the tests and the benchmarks run on.

    async with EmbeddedServer() as server:
        broker = await connect(server.url)

The server listens on the loopback address only and keeps its messages in a directory of its own: a temporary one that
goes when it stops, or a given one that stays. It dies with the process that started it, even when that one is killed:
on Linux the kernel sees to it (with the *thread* that started it, so start it in one that lives as long); elsewhere a
killed process leaves the server running until somebody stops it.

Killing the server loses nothing it has acknowledged, since the operating system still holds what was written. A power
failure may lose the last two minutes; `sync="always"` writes through to the disk before every acknowledgement, and
makes each of them several times slower.
"""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.brokers.embedded.server import LOOPBACK, EmbeddedServer, find_binary
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "server": "EmbeddedServer LOOPBACK find_binary",
        },
    )

__all__ = [
    "LOOPBACK",
    "EmbeddedServer",
    "find_binary",
]
