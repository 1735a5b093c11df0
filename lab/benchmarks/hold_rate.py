"""Publish at a rate with one stack, and print whether it was held.

    python lab/benchmarks/hold_rate.py STACK [RATE [SECONDS]]

STACK is `json` (every event a message), `json-batched` (the events of 50 ms in one message), `thinwire`, or another
name of `SHAPES` in `thinwire_lab.live.saturation_rate`. Four publishers, twenty subscribers, a broker, two cores.
"""

import asyncio
import sys

from thinwire_lab.live.saturation_rate import describe_outcome, try_once

if __name__ == "__main__":
    print(describe_outcome(asyncio.run(try_once(sys.argv[1], *map(float, sys.argv[2:])))))
