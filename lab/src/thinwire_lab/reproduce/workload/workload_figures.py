"""Figures 1 to 6 of the paper on the workload generator: its words beside what a summary of ours shows.

The paper gives pictures and words, hardly any numbers, so each figure is a statement that can be checked: what the text
says of the picture, and the numbers of ours that say the same or do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_sheet import Sheet
from thinwire_lab.reproduce.workload.workload_figures_workload_shapes import (
    Shape,
    effective,
    majorities,
    removal,
    spread_of,
)
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.interests.interests_correlation import correlations
from thinwire_lab.workload.interests.transformations import diffuse
from thinwire_lab.workload.interests.transformations_removal import hottest
from thinwire_lab.workload.workload_pictures_pictures import middle_of

NAME = "workload"
PAPER = (
    "A. Yu, P. K. Agarwal, J. Yang: Generating Wide-Area Content-Based Publish/Subscribe Workloads, 2009 (Google "
    "Groups and PlanetLab); here the built-in summary, calibrated to what the paper tells"
)
P = 0.7
REMOVED = (0, 1, 2, 3, 5, 10, 30, 100, 300, 1000)
HOT = 3
SLIP = 0.02
"""by which a share that rises gradually may fall on the way: one popular interest may be nearly all European"""


@dataclass(frozen=True)
class Figure:
    """A figure of the paper.

    shape: what the text says of it
    """

    what: str
    shape: str
    show: Callable[[Interests], Shape]
    smooth: bool = False

    def sheet(self, number: int, members: Interests, pictures: list[Path]) -> Sheet:
        """The table of the figure, the paper's words and the verdict below it."""
        found = self.show(diffuse(members, P) if self.smooth else members)
        verdict = "as published" if found.holds else "NOT as published"
        notes = (f"published: {self.shape}", f"ours: {found.said}: {verdict}")
        return Sheet(f"figure {number}: {self.what}", found.columns, found.rows, notes, pictures)


def _interests(members: Interests) -> Shape:
    language = members.axes[-1]
    middle, many = middle_of(members, language), effective(members)
    columns = ("region", "share of subscribers", "interests, effective number", f"middle along {language.name}s")
    rows = list(zip(members.regions, members.mix.tolist(), many.tolist(), middle.tolist(), strict=True))
    known = {region: place for place, region in enumerate(members.regions)}
    if not {"Asia", "US", "Europe"} <= set(known):
        return Shape(columns, rows, "other regions than the paper's", False)
    asia, us, europe = (known[name] for name in ("Asia", "US", "Europe"))
    said = f"US has {many[us]:,.0f} interests in effect, Asia {many[asia]:,.0f}, Europe {many[europe]:,.0f}"
    holds = bool(many[us] < min(many[asia], many[europe]) and middle[asia] < middle[europe])
    return Shape(
        columns, rows, f"{said}; Asia's middle is left of Europe's: {bool(middle[asia] < middle[europe])}", holds
    )


def _axes(members: Interests) -> Shape:
    told = correlations(members)
    rows = [(axis.name, told[axis.name], spread_of(members, axis), *majorities(members, axis)) for axis in members.axes]
    columns = ("axis", "bits about the region", "region shares, standard deviation",
               *(f"mostly {region}" for region in members.regions))  # fmt: skip
    topic, language = (axis.name for axis in members.axes[:2])
    said = f"a {language} tells {told[language]:.3f} bits about the region, a {topic} {told[topic]:.3f}"
    return Shape(columns, rows, said, told[language] > 5 * told[topic])


def _popularity(members: Interests) -> Shape:
    popularity = members.popularity
    shares = np.sort(popularity.ravel())[::-1] / popularity.sum()
    ends = np.cumsum(shares)
    top = np.unravel_index(hottest(members, HOT), popularity.shape)
    names = [
        " / ".join(a.labels[n] for a, n in zip(members.axes, cell, strict=True)) for cell in zip(*top, strict=True)
    ]
    rows = [(rank + 1, name, float(shares[rank])) for rank, name in enumerate(names)]
    for rank in (10, 100, 1000, 10_000):
        if rank <= shares.size:
            rows.append((rank, "", float(shares[rank - 1])))
    half = int(np.searchsorted(ends, 0.5)) + 1
    said = f"{', '.join(f'{share:.1%}' for share in shares[:HOT])} for the first three; {half:,} interests hold half"
    skewed = half <= 0.1 * np.count_nonzero(shares)
    return Shape(
        ("rank", "interest", "share of all members"), rows, said, bool(skewed and (shares[:HOT] >= 0.05).all())
    )


def _removal(members: Interests) -> Shape:
    there = int(np.count_nonzero(members.popularity))
    rows = [(top, *removal(members, top)) for top in REMOVED if top < there]
    columns = ("most popular removed", "members left, millions", *members.regions)
    if "Europe" not in members.regions:
        return Shape(columns, rows, "other regions than the paper's", False)
    europe = [row[2 + members.regions.index("Europe")] for row in rows]
    fall = max(0.0, *(before - after for before, after in pairwise(europe)))
    said = f"Europe's share goes from {europe[0]:.1%} to {europe[-1]:.1%} and never falls by more than {fall:.1%}"
    return Shape(columns, rows, said, europe[-1] > europe[0] and fall <= SLIP)


def _smoothed(members: Interests) -> Shape:
    found = _interests(members)
    top = members.popularity.max() / members.popularity.sum()
    return found._replace(said=f"p = {P}: {found.said}; the first interest holds {top:.1%}")


FIGURES = {
    1: Figure(
        "interests in the event space, by region",
        "Europeans and Asians subscribe to many interests, US subscribers to fewer; many of the Asians' lie at the "
        "left of the map, most of the Europeans' in the middle",
        _interests,
    ),
    2: Figure(
        "regions of subscribers along languages and topics",
        "for a cluster of languages most subscribers are Asians, for another Europeans; along topics the regions are "
        "distributed alike",
        _axes,
    ),
    3: Figure(
        "popularity of base interests",
        "heavily skewed: (business services, English), (small business, English) and (consulting, English) contain at "
        "least 5 % of the members each",
        _popularity,
    ),
    4: Figure(
        "regions as the most popular interests are removed",
        "the share of Europeans rises gradually",
        _removal,
    ),
    5: Figure("interests after diffusion", "smoother, with the same differences between regions", _smoothed, True),
    6: Figure("regions along languages and topics after diffusion", "as before it, smoother", _axes, True),
}


def chosen(figure: str | None) -> list[int]:
    """The figures asked for."""
    if figure is None:
        return sorted(FIGURES)
    if figure not in map(str, FIGURES):
        raise ConfigError("no such figure", figure=figure, choose_from=sorted(FIGURES))
    return [int(figure)]
