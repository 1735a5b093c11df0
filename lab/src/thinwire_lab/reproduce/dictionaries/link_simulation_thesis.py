"""How many times faster with PREDICT, as the thesis measured it on Apache Pulsar (C. Doblander, 2018).

Figures 5.5.3 and 5.5.4 and appendix C: 20,000 tweets, 50 ms one way, publishers by subscribers, as printed there. The
maps for 64, 128 and 512 kbit, and most of those for publishers, cannot be read in the text; gaps in the others are runs
that timed out.

>>> RECEIVING["1mbit"][13, 1], PUBLISHING["4mbit"][55, 21], (8, 13) in RECEIVING["1mbit"]
(2.9, 1.3, False)
"""

from __future__ import annotations

from thinwire_lab.reproduce.dictionaries.link_simulation_grid import PARTIES

Map = dict[tuple[int, int], float]
"""(publishers, subscribers) -> times faster"""


def _read(text: str) -> Map:
    """Rows from 55 publishers down to 1, columns from 1 subscriber to 55; a dash where there is no figure."""
    rows = zip(reversed(PARTIES), text.strip().splitlines(), strict=True)
    cells = {(p, s): value for p, row in rows for s, value in zip(PARTIES, row.split(), strict=True)}
    return {parties: float(value) for parties, value in cells.items() if value != "-"}


RECEIVING = {
    "1mbit": _read("""
        1.9 1.6 4 3.6 1.3 2.7 3.3 1.4 1.4
        2.4 2.1 2.9 3.5 3.6 3.4 1.7 2.8 2.7
        2.2 3.3 3.5 2.8 2.6 3.1 3.3 3.4 3.3
        2.9 3.2 2.9 3 3 2.4 2.3 2.9 3.4
        2.1 1.8 2.1 2 1.4 - 2.5 2.4 -
        1.3 1.3 2 1.7 1.3 1.3 2 1.3 -
        1.1 1.1 1 1.1 1.1 1.2 1.2 1.1 1.4
        1.1 1.1 1 1.1 1.1 1.1 1.1 1.2 -
        1.1 1.1 1.1 1.1 1.1 1 1.1 1.1 1.1"""),
    "2mbit": _read("""
        1.5 2 2.1 2.3 2.3 2.5 1.9 1.7 3.2
        3 2.6 2.8 2.3 1.8 2.8 2 - 3.7
        2.3 2.2 2.1 2.2 2.6 2.2 2.3 2.4 3.6
        1.4 1.5 1.5 1.5 1.4 1.7 1.6 1.1 2
        1.1 1.1 1.2 1.6 1.3 1.7 1.2 1.1 -
        1.1 1 1.1 1 1.2 1.1 1.1 1.1 1.3
        1.1 1.1 1.1 1.1 1.1 1.1 1.1 1 1.1
        1.1 1.1 1.1 1.1 1.1 1 1 1 1.1
        1.1 1.1 1 1.1 1.1 1.1 1.1 1 1.1"""),
    "4mbit": _read("""
        1.4 1.8 0.99 2.3 2.7 1.8 2.5 1.5 2.5
        1.6 1.8 1.6 3 2 1.8 2.2 2.8 2.6
        1.1 1.2 1.1 1.1 1.4 0.96 1.3 1.2 2
        1.1 1.1 1.1 1.1 1 1.4 1 1 1.2
        1.1 1.2 1.1 1.2 1.4 1.2 1.1 1.1 1.1
        1.1 1.1 1 1.1 1.1 1.1 1.1 0.99 1.1
        1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
        1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
        0.95 1 1.1 1.1 1 1.1 1 1.1 1.1"""),
    "8mbit": _read("""
        0.99 1.2 1.6 1.8 1.6 1.3 1.8 1.3 1
        0.95 0.94 1.2 1 0.92 1.6 0.94 1.3 1.4
        1 1 1.1 1 1.1 1.2 1.2 1.3 1.2
        1.1 1.1 1.1 1.1 1.1 1 1 1 1.1
        1.2 1.1 0.98 1.1 1.1 1.1 1.1 1.2 1.1
        1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
        1.1 1.1 1.1 1.1 1 1.1 1.1 1.1 1.1
        1 1 1.1 1.1 1 1.1 1.1 1.1 1.1
        1.1 1.1 0.99 1 1.1 1.1 1.1 1 1.3"""),
    "16mbit": _read("""
        1.2 0.91 0.85 0.94 0.93 0.92 1.2 1.5 1.6
        1.1 0.96 0.98 1 0.99 1.3 0.91 1.3 1.1
        1.1 1 1.1 1 1.1 0.96 1.1 0.96 1
        1.1 1.2 1.1 1.1 1.2 1.1 1 1.1 1
        1.1 1.2 1.1 1.1 1.2 1.1 1.1 1.1 1.1
        1.1 1.2 1.1 1.1 1.1 1.1 1.1 1.1 1.1
        1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.2
        1 1.1 1.1 1.1 1.1 1.1 1.1 1 1
        1 1.1 1.1 1.1 1.1 1.1 1.1 1 1.1"""),
}

PUBLISHING = {
    "4mbit": _read("""
        0.89 1 0.98 1 0.93 1 1.3 0.98 0.99
        1 1.1 1 0.97 1.1 1 1 0.96 1.1
        1 1.1 1 1 1 1 0.98 1.1 1.1
        1.1 1.1 1.1 1.1 1 1.1 1 1 1.1
        1.1 1.2 1.1 1.2 1.1 1.1 1.2 1.1 1
        1.2 1.1 1 1.1 1.1 1.1 1.1 0.97 1.1
        1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
        1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1 1.1
        0.95 1 1.1 1.1 1 1.1 1 1.1 1.1"""),
}
