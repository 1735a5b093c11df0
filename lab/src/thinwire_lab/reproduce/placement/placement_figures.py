"""The published figures on placement again, on simulated hosts, theirs beside ours; what was measured stands apart.

The published training set is not public: what is compared is the published method and ours, both trained and tested on
the same simulated runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from thinwire.errors import ConfigError
from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_sheet import Sheet
from thinwire_lab.reproduce.placement.placement_cells_placement_occasion import Occasion
from thinwire_lab.reproduce.placement.placement_figures_placement_heuristics import heuristics, hybrids
from thinwire_lab.reproduce.placement.placement_figures_placement_measured import measured
from thinwire_lab.reproduce.placement.placement_figures_placement_models import curves, table_1
from thinwire_lab.reproduce.placement.placement_figures_placement_sensitivity import sensitivity

Maker = Callable[[Occasion], Iterator[Sheet]]

TABLES: dict[str, tuple[Maker, ...]] = {"I": (table_1,)}
FIGURES: dict[str, tuple[Maker, ...]] = {
    "1": (sensitivity, measured),
    "2": (table_1, curves),
    "3": (heuristics,),
    "4": (hybrids,),
}


def chosen(table: str | None = None, figure: str | None = None) -> dict[str, tuple[Maker, ...]]:
    """What is to be made, by name; every figure where nothing is named, and table I is part of the second.

    >>> list(chosen(table="I")), list(chosen(figure="3")), len(chosen())
    (['table I'], ['figure 3'], 4)
    """
    if table is None and figure is None:
        return {f"figure {number}": makers for number, makers in FIGURES.items()}
    asked = (("table", table, TABLES), ("figure", figure, FIGURES))
    return {f"{kind} {number}": _found(kind, number, known) for kind, number, known in asked if number is not None}


def _found(kind: str, number: str, known: dict[str, tuple[Maker, ...]]) -> tuple[Maker, ...]:
    if number not in known:
        raise ConfigError(f"no such {kind}", **{kind: number}, choose_from=sorted(known))
    return known[number]
