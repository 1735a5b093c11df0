"""Scenarios: topics whose rates, interests, values and shapes change over time, and who subscribes to them."""

from thinwire.workload.scenarios.curves import Curve
from thinwire.workload.scenarios.reading import read_scenario
from thinwire.workload.scenarios.scenario import Audience, Scenario, TopicScene

__all__ = ["Audience", "Curve", "Scenario", "TopicScene", "read_scenario"]
