"""Scenarios: topics whose rates, interests, values and shapes change over time, and who subscribes to them."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire_lab.workload.scenarios.scenario import Audience, Curve, Scenario, TopicScene, read_scenario
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "scenario": "Audience Curve Scenario TopicScene read_scenario",
        },
    )

__all__ = [
    "Audience",
    "Curve",
    "Scenario",
    "TopicScene",
    "read_scenario",
]
