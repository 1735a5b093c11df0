"""Tables and figures of the thesis on shared dictionaries: titles, and the functions that compute them.

The thesis is `thesis_numbers.PAPER`. A function returns a sheet with the values of the thesis beside ours; its cells
run on Spark or sequentially. Statements of the thesis without a table have a name instead of a number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from thinwire.analysis.analysis_run import CellRunner
from thinwire_lab.reproduce.dictionaries import dictionary_figures as figures
from thinwire_lab.reproduce.dictionaries import dictionary_tables as tables
from thinwire_lab.reproduce.dictionaries import link_figures as links
from thinwire_lab.reproduce.dictionaries.thesis_numbers import POLICY_TABLES
from thinwire_lab.reproduce.dictionaries.thesis_sheet import Sheet, ThesisScale
from thinwire_lab.reproduce.experiment import select

Maker = Callable[[ThesisScale, CellRunner, Path], Sheet]


@dataclass(frozen=True)
class Item:
    """A table or a figure: its title, and the function that computes it."""

    title: str
    make: Maker = field(repr=False)


TABLES: dict[str, Item] = {
    "4.3.1": Item("the best fixed configuration against deflate", tables.table_4_3_1),
    "4.3.2": Item("Adaptive against deflate and the best fixed configuration", tables.table_4_3_2),
    "5.2.1": Item("share of a dictionary in use, by its size", tables.table_5_2_1),
    "5.4.2": Item("similarity of messages (NSim)", tables.table_5_4_2),
    "5.4.3": Item("dictionaries of Predict, and its error", tables.table_5_4_3),
    "6.2.1": Item("decay of a dictionary that is never replaced", tables.table_6_2_1),
    **{
        number: Item(
            f"all policies, {batch} messages in a batch: bytes saved and CPU", partial(tables.policy_table, number)
        )
        for number, (batch, _, _) in POLICY_TABLES.items()
    },
    "formats": Item("the same rows as CSV, JSON, XML and Protocol Buffers", tables.table_formats),
    "linger": Item("batches of a linger against dictionaries, at a real broker", links.table_linger),
}
FIGURES: dict[str, Item] = {
    "4.3.1": Item("bytes saved by history and size", figures.figure_4_3_1),
    "4.3.2": Item("bytes saved, dictionary against deflate", figures.figure_4_3_2),
    "4.3.3": Item("CPU to pack and unpack, by the size of the dictionary", figures.figure_4_3_3),
    "4.3.4": Item("Adaptive over time", figures.figure_4_3_4),
    "4.3.5": Item("latency on a phone with 2G, simulated", links.figure_4_3_5),
    "4.3.6": Item("time to receive 5,000 messages and the dictionary on a 2G phone, simulated", links.figure_4_3_6),
    "5.2.1": Item("CPU to train a dictionary, by kB of history", figures.figure_5_2_1),
    "5.2.2": Item("bytes saved by history", figures.figure_5_2_2),
    "5.2.3": Item("CPU to pack by the size of the dictionary", figures.figure_4_3_3),
    "5.2.4": Item("share of a dictionary in use, by its size", figures.figure_5_2_4),
    "5.2.5": Item("references to each part of a dictionary", figures.figure_5_2_5),
    "5.2.6": Item("bytes saved by the size of the dictionary", figures.figure_5_2_6),
    "5.4.1": Item("similarity of messages (NSim)", figures.figure_5_4_1),
    "5.4.2": Item("lifetimes expected by Predict, and actual ones", figures.figure_5_4_2),
    "5.4.3": Item("effect of settings", figures.figure_5_4_3),
    "5.4.4": Item("bytes saved over time, all policies", figures.figure_5_4_4),
    "5.4.5": Item("bytes saved over time, rows without a schema", figures.figure_5_4_5),
    "5.5.1": Item("batches: deflate against dictionaries, one publisher", figures.figure_5_5_1),
    "5.5.2": Item("batches: deflate against dictionaries, 1,000 publishers", figures.figure_5_5_2),
    "5.5.3": Item("speed-up of subscribers at 1 Mbit, publishers by subscribers", links.figure_5_5_3),
    "5.5.4": Item("speed-up of subscribers at 4 Mbit, publishers by subscribers", links.figure_5_5_4),
    "C.1": Item("speed-up of subscribers, all bandwidths", links.figure_c_1),
    "C.2": Item("speed-up of publishers, all bandwidths", links.figure_c_2),
    "delays": Item("speed-up by bandwidth, delay and jitter", links.figure_delays),
}


def select_items(table: str | None = None, figure: str | None = None) -> list[tuple[str, Item]]:
    """Return the selected items by name; all without a selection.

    >>> [name for name, _ in select_items(table="5.4.4")], len(select_items()) == len(TABLES) + len(FIGURES)
    (['table 5.4.4'], True)
    """
    return list(select(TABLES, FIGURES, table, figure).items())
