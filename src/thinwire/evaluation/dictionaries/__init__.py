"""Dictionaries at work on streams: policies, topologies and batch sizes, each combination a cell of a sweep."""

from thinwire.evaluation.dictionaries.cells import run_cell, weight
from thinwire.evaluation.dictionaries.policies import AWARE, POLICIES, PUBLISHED, permutations
from thinwire.evaluation.dictionaries.running import run_stream

__all__ = ["AWARE", "POLICIES", "PUBLISHED", "permutations", "run_cell", "run_stream", "weight"]
