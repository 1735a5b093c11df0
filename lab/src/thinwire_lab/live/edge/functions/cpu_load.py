"""Work of a known size: it uses a processor for as long as the message states. Workers load only this file."""

from __future__ import annotations

import time


def burn(body: bytes) -> bytes:
    """Use the processor seconds stated before the first space. Time of other processes does not count."""
    end = time.process_time() + float(body.partition(b" ")[0])
    while time.process_time() < end:
        pass
    return body
