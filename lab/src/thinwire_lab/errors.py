"""Error classes of the lab."""

from __future__ import annotations

from thinwire.errors import LocalFault, MissingData


class FullEventsOnly(LocalFault):
    """A partial event, or one with nulls, was given to a format that cannot omit a property."""

    summary = "format takes full events only"
    advice = "Choose a format whose `supports_partial` is true."


class MissingDataset(MissingData):
    """A recorded data set does not exist."""

    advice = "Name the folder that contains the data sets with --data."


class SummaryError(LocalFault):
    """A table of a workload summary is inconsistent."""

    summary = "bad summary"
    advice = "Correct the table; rows are counted from 1, without the header."


class ScenarioError(LocalFault):
    """A scenario cannot be run."""

    summary = "bad scenario"
    advice = "Correct the field; lab/docs/scenarios.md explains every one."
