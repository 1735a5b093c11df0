"""Experiments that can be reproduced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from thinwire.errors import ConfigError

Item = TypeVar("Item")


@dataclass(frozen=True)
class Experiment:
    """A publication whose figures are reproduced.

    figures: title by number
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
    ),
    "placement": Experiment(
        "placement",
        "S. Khare et al.: Scalable Edge Computing for Low Latency Data Dissemination in Topic-based Publish/Subscribe, "
        "2018",
        {
            1: "sensitivity: p90 over the rate, alone and with other topics (simulated)",
            2: "table I and learning curves: accuracy of models of the p90 (simulated)",
            3: "heuristics for 10 to 70 topics: hosts, time and violated latency limits (simulated)",
            4: "the hybrid heuristic from k' = 1 to 6 (simulated)",
        },
    ),
}


def find(name: str) -> Experiment:
    """Return the experiment with this name.

    >>> sorted(find("virtual-events").figures)
    [5, 6, 7]
    """
    if name not in EXPERIMENTS:
        raise ConfigError(
            "unknown experiment",
            experiment=name,
            choose_from=sorted([*EXPERIMENTS, "conformance", "dictionaries", "workload"]),
        )
    return EXPERIMENTS[name]


def select(
    tables: Mapping[str, Item], figures: Mapping[str, Item], table: str | None, figure: str | None
) -> dict[str, Item]:
    """Return the selected table and figure by name; all without a selection.

    >>> select({"I": 1}, {"3": 2, "4": 3}, None, "4"), select({"I": 1}, {"3": 2}, None, None)
    ({'figure 4': 3}, {'table I': 1, 'figure 3': 2})
    """
    selected: dict[str, Item] = {}
    for kind, number, items in (("table", table, tables), ("figure", figure, figures)):
        if number is not None and number not in items:
            raise ConfigError(f"unknown {kind}", **{kind: number}, choose_from=list(items))
        everything = items if table is None and figure is None else ()
        numbers = everything if number is None else [number]
        selected |= {f"{kind} {each}": items[each] for each in numbers}
    return selected
