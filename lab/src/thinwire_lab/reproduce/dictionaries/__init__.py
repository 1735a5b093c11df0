"""Dictionaries at work on streams: policies, topologies and batch sizes, each combination a cell of a sweep."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire_lab.reproduce.dictionaries.policy_cells import run_cell, weight
    from thinwire_lab.reproduce.dictionaries.policy_run import AWARE, POLICIES, PUBLISHED, permutations, run_stream
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "policy_cells": "run_cell weight",
            "policy_run": "AWARE POLICIES PUBLISHED permutations run_stream",
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
