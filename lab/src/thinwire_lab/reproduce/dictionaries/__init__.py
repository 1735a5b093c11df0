"""Dictionaries at work on streams: policies, topologies and batch sizes, each combination a cell of a sweep."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire_lab.reproduce.dictionaries.policy_cells_cells import run_cell, weight
    from thinwire_lab.reproduce.dictionaries.policy_run_policies import AWARE, POLICIES, PUBLISHED, permutations
    from thinwire_lab.reproduce.dictionaries.policy_run_running import run_stream
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "policy_cells_cells": "run_cell weight",
            "policy_run_policies": "AWARE POLICIES PUBLISHED permutations",
            "policy_run_running": "run_stream",
        },
    )

__all__ = [
    "AWARE",
    "POLICIES",
    "PUBLISHED",
    "permutations",
    "run_cell",
    "run_stream",
    "weight",
]
