"""Ours on the same stream, with the same publishers, subscribers and broker as the JSON references beside this file.

python lab/benchmarks/thin_frames.py [RATE [SECONDS]]
"""

from thinwire_lab.live.saturation_rate import main

if __name__ == "__main__":
    main("thinwire")
