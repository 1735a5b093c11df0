"""Error classes of the lab."""

from __future__ import annotations

from thinwire.errors import LocalFault, MissingData


class FullEventsOnly(LocalFault, summary="format takes full events only"):
    """A partial event, or one with nulls, was given to a format that cannot omit a property."""

    advice = "Choose a format whose `supports_partial` is true."


class MissingDataset(MissingData):
    """A recorded data set does not exist."""

    advice = "Name the folder that contains the data sets with --data."


class SummaryError(LocalFault, summary="bad summary"):
    """A table of a workload summary is inconsistent."""

    advice = "Correct the table; rows are counted from 1, without the header."


class ScenarioError(LocalFault, summary="bad scenario"):
    """A scenario cannot be run."""

    advice = "Correct the field; lab/docs/scenarios.md explains every one."
