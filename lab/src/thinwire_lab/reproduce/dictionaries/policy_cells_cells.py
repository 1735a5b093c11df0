"""The pieces of the evaluation that run side by side: functions of plain parameters that answer in plain JSON.

Without Spark a loop over the cells does the same: `staged.one_by_one` of the analysis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thinwire.analysis.analysis_cells import Cell
from thinwire.dictionaries.byte_account import TOPOLOGIES, Topology
from thinwire_lab.reproduce.dictionaries.policy_cells_opening import messages_of
from thinwire_lab.reproduce.dictionaries.policy_run_policies import TOLD, Settings
from thinwire_lab.reproduce.dictionaries.policy_run_running import run_stream

PUBLISHERS = [topology.publishers for topology in TOPOLOGIES]


def run_cell(
    stream: str,
    policy: str,
    data: str | None = None,
    settings: Settings | None = None,
    messages: int | None = None,
    cycle: bool = False,
    batch: int = 1,
    publishers: Sequence[int] = PUBLISHERS,
) -> dict[str, Any]:
    """One policy with one setting on one stream: a row a topology.

    >>> cell = {"stream": "building-json", "policy": "deflate", "messages": 100}
    >>> [row["topology"] for row in run_cell(**cell)["rows"]]
    ['1:1', '1,000:1', '10,000:1']
    """
    length = _length(stream, data, messages, cycle) // batch if policy in TOLD else None
    topologies = [Topology(count) for count in publishers]
    source = messages_of(stream, data, messages, cycle)
    rows = run_stream(source, policy, topologies, batch, settings=settings, expected=length)
    return {"rows": [{"stream": stream, **row} for row in rows]}


def _length(stream: str, data: str | None, messages: int | None, cycle: bool) -> int:
    if cycle and messages is not None:
        return messages
    return sum(1 for _ in messages_of(stream, data, messages))


def weight(cell: Cell) -> float:
    """How much work a cell is: policies that train often and those that run once a topology weigh more."""
    lanes = {"deflate": 2.0, "predict": 3.0, "ours": 3.0, "ours, length known": 3.0}
    return lanes.get(cell.get("policy", ""), 1.0) * float(cell.get("messages") or 100_000)
