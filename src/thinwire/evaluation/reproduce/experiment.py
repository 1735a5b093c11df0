"""The list of what can be reproduced."""

from __future__ import annotations

from dataclasses import dataclass

from thinwire.errors import ConfigError


@dataclass(frozen=True)
class Experiment:
    """A publication whose figures we make again.

    figures: number of the figure -> what it shows
    """

    name: str
    paper: str
    figures: dict[int, str]


EXPERIMENTS = {
    "virtual-events": Experiment(
        "virtual-events",
        "P. Zehnder, P. Wiener, D. Riemer: Using Virtual Events for Edge-based Data Stream Reduction in Distributed "
        "Publish/Subscribe Systems, 2019",
        {
            5: "baseline without reduction: the data set in four formats",
            6: "bytes at four stages, publisher exact, subscriber within 1.0",
            7: "processor and memory of the whole chain over time, and bytes stored at the broker",
        },
    )
}


def find(name: str) -> Experiment:
    """The experiment of this name.

    >>> sorted(find("virtual-events").figures)
    [5, 6, 7]
    """
    if name not in EXPERIMENTS:
        raise ConfigError(
            "no such experiment", experiment=name, choose_from=sorted([*EXPERIMENTS, "conformance", "dictionaries"])
        )
    return EXPERIMENTS[name]
