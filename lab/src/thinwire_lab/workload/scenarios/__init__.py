"""Scenarios: topics whose rates, interests, values and schemas change over time, and their subscribers."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire_lab.workload.scenarios.scenario import Audience, RateCurve, Scenario, ScenarioTopic, read_scenario
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "scenario": "Audience RateCurve Scenario ScenarioTopic read_scenario",
        },
    )

__all__ = [
    "Audience",
    "RateCurve",
    "Scenario",
    "ScenarioTopic",
    "read_scenario",
]
