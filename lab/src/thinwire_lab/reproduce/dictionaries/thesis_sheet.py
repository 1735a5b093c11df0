"""Fixed configurations: history, life and size of dictionaries as equations 4.3.1 and 4.3.2 of the thesis vary them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thinwire.analysis.analysis_cells import Run
from thinwire.dictionaries.policies.fixed_rate import HISTORIES, MULTIPLIERS
from thinwire_lab.reproduce.dictionaries.policy_cells_cells import run_cell
from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_sheet import Scale, swept

LIFE = 5500
MOST = 20_000
"""messages; the thesis takes at least as many"""


def configured_rows(scale: Scale, run: Run, streams: Sequence[str]) -> list[dict[str, Any]]:
    """Every history and size, replaced every 5500 messages, with one publisher."""
    histories, multipliers = (values[1::4] if scale.quick else values for values in (HISTORIES, MULTIPLIERS))
    cells = [
        {"stream": stream, "policy": "fixed rate", "data": scale.data, "messages": min(scale.most, MOST),
         "publishers": [1], "settings": {"every": LIFE, "histories": [history], "multipliers": [times]}}
        for stream in streams
        for history in histories
        for times in multipliers
    ]  # fmt: skip
    return [row for figures in swept(run_cell, cells, run) for row in figures["rows"]]


def settings_of(row: Mapping[str, Any]) -> str:
    """History/life/multiplier as the thesis writes them.

    >>> settings_of({"settings": {"every": 5500, "histories": [500], "multipliers": [21]}})
    '500/5500/21'
    """
    settings = row["settings"]
    return f"{settings['histories'][0]}/{settings['every']}/{settings['multipliers'][0]:g}"
