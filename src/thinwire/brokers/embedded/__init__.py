"""A nats-server as a child process, used by `embedded://`, tests and benchmarks.

    async with EmbeddedServer() as server:
        broker = await connect(server.url)

The server listens on the loopback address only. It stores its messages in a given directory, or in a temporary one that
is removed when it stops. On Linux the kernel terminates the server together with the thread that started it, also if
that process is killed; start it in a thread that lives as long. On other systems a killed process leaves the server
running.

If the server is killed, acknowledged messages are not lost, because the operating system has them. A power failure can
lose the last two minutes. `sync="always"` writes through to the disk before every acknowledgement, which makes each
several times slower.
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
