"""Work of a known size: it burns a processor for as long as the message says. Workers load this file alone."""

from __future__ import annotations

import time


def burn(body: bytes) -> bytes:
    """Use up the processor seconds that stand in front of the first space; time in which others run does not count."""
    end = time.process_time() + float(body.partition(b" ")[0])
    while time.process_time() < end:
        pass
    return body
