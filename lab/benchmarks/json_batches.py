"""What a careful team would do: all JSON events of 50 ms in one message of the broker's log, acknowledged.

    python lab/benchmarks/json_batches.py [RATE [SECONDS]]

Four publishers, twenty subscribers, a broker, two cores. The code is `JsonBatches` in
`thinwire_lab.live.json_stack`, where `thinwire bench live` finds it too.
"""

from thinwire_lab.live.saturation_rate import main

if __name__ == "__main__":
    main("json-batched")
