"""What a team would do first: every event a JSON message in the broker's log, acknowledged.

    python lab/benchmarks/json_messages.py [RATE [SECONDS]]

Four publishers, twenty subscribers, a broker, two cores. The code is `JsonEvents` in
`thinwire_lab.live.json_stack`, where `thinwire bench live` finds it too.
"""

from thinwire_lab.live.saturation_rate import main

if __name__ == "__main__":
    main("json")
