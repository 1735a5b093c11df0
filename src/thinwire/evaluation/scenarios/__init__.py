"""Scenario runs: a scenario published and subscribed to on a real broker, with latencies from the intended instants."""

from thinwire.evaluation.scenarios.outcome import AudienceOutcome, ScenarioOutcome, TopicOutcome
from thinwire.evaluation.scenarios.running import run_scenario

__all__ = ["AudienceOutcome", "ScenarioOutcome", "TopicOutcome", "run_scenario"]
