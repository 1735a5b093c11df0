"""Limited links: how much faster and sooner smaller messages arrive, live through a narrow line and in virtual time."""

from thinwire.evaluation.limited.cells import NAMED, Cell, Outcome
from thinwire.evaluation.limited.grid import compare, delay_cells, grid, thesis_cells
from thinwire.evaluation.limited.loads import METHODS, TWEETS, Load, codecs, weighed
from thinwire.evaluation.limited.virtual import simulate

__all__ = [
    "METHODS",
    "NAMED",
    "TWEETS",
    "Cell",
    "Load",
    "Outcome",
    "codecs",
    "compare",
    "delay_cells",
    "grid",
    "simulate",
    "thesis_cells",
    "weighed",
]
