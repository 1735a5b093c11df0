"""Figures 1 to 6 of the paper on the workload generator.

The paper has pictures and few numbers. Each figure is therefore checked as a statement: the text of the paper, and our
numbers that confirm or contradict it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.reproduce.dictionaries.thesis_sheet import Sheet
from thinwire_lab.reproduce.figure_plots import OURS, make_figure, save
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.interests import Interests, correlations
from thinwire_lab.workload.interests.transformations import diffuse, hottest, remove_hot
from thinwire_lab.workload.random_rows import Floats
from thinwire_lab.workload.workload_pictures import COLOURS, plot_axes, plot_heat_maps, region_centres, region_shares


class FigureNumbers(NamedTuple):
    """Numbers of a figure.

    summary: the numbers in one line; holds: whether they confirm the paper
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    summary: str
    holds: bool


def effective_interests(interests: Interests) -> Floats:
    """Return the effective number of interests of each region (2 to the entropy).

    >>> axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all")])
    >>> effective_interests(Interests((axis,), ("x", "y"), np.array([[0.0, 0], [5, 9], [5, 0]]))).tolist()
    [2.0, 1.0]
    """
    counts = interests.counts.reshape(-1, len(interests.regions))
    shares = counts / np.maximum(counts.sum(axis=0), 1e-300)
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray(2.0 ** -(shares * logs).sum(axis=0))


def majorities(interests: Interests, axis: Hierarchy) -> list[int]:
    """Return for each region the number of atomic nodes with most of their subscribers there."""
    shares = region_shares(interests, axis)
    return [int((shares[:, region] > 0.5).sum()) for region in range(len(interests.regions))]


def spread_of(interests: Interests, axis: Hierarchy) -> float:
    """Return the standard deviation of region shares over the atomic nodes of an axis, as mean over regions."""
    return float(region_shares(interests, axis).std(axis=0).mean())


def remaining_members(interests: Interests, top: int) -> tuple[float, ...]:
    """Return members in millions and the shares of regions without the `top` most popular interests."""
    remaining = remove_hot(interests, top)
    return float(remaining.counts.sum() / 1e6), *remaining.mix.tolist()


NAME = "workload"
PAPER = (
    "A. Yu, P. K. Agarwal, J. Yang: Generating Wide-Area Content-Based Publish/Subscribe Workloads, 2009 (Google "
    "Groups and PlanetLab); here the built-in summary, calibrated to the numbers of the paper"
)
DIFFUSION = 0.7
"""probability `p` of `diffuse`"""
REMOVED = (0, 1, 2, 3, 5, 10, 30, 100, 300, 1000)
LISTED = 3
"""most popular interests that are named in the table"""
MAX_FALL = 0.02
"""a share may fall by this at one removal and still count as rising: some popular interests are nearly all European"""


@dataclass(frozen=True)
class WorkloadFigure:
    """A figure of the paper.

    statement: what the text of the paper says of the figure; diffused: whether the interests are diffused first
    """

    what: str
    statement: str
    show: Callable[[Interests], FigureNumbers]
    diffused: bool = False

    def sheet(self, number: int, interests: Interests, pictures: list[Path]) -> Sheet:
        """Return the table of the figure with the statement of the paper and the verdict."""
        found = self.show(diffuse(interests, DIFFUSION) if self.diffused else interests)
        verdict = "as published" if found.holds else "NOT as published"
        notes = (f"published: {self.statement}", f"ours: {found.summary}: {verdict}")
        return Sheet(f"figure {number}: {self.what}", found.columns, found.rows, notes, pictures)


def _interests(interests: Interests) -> FigureNumbers:
    language = interests.axes[-1]
    middle, effective = region_centres(interests, language), effective_interests(interests)
    columns = ("region", "share of subscribers", "interests, effective number", f"middle along {language.name}s")
    rows = list(zip(interests.regions, interests.mix.tolist(), effective.tolist(), middle.tolist(), strict=True))
    known = {region: index for index, region in enumerate(interests.regions)}
    if not {"Asia", "US", "Europe"} <= set(known):
        return FigureNumbers(columns, rows, "regions differ from those of the paper", False)
    asia, europe = known["Asia"], known["Europe"]
    counts = {name: effective[known[name]] for name in ("US", "Asia", "Europe")}
    summary = f"effective number of interests: {', '.join(f'{name} {count:,.0f}' for name, count in counts.items())}"
    holds = bool(counts["US"] < min(counts["Asia"], counts["Europe"]) and middle[asia] < middle[europe])
    return FigureNumbers(
        columns, rows, f"{summary}; Asia's middle is left of Europe's: {bool(middle[asia] < middle[europe])}", holds
    )


def _axes(interests: Interests) -> FigureNumbers:
    information = correlations(interests)
    rows = [
        (axis.name, information[axis.name], spread_of(interests, axis), *majorities(interests, axis))
        for axis in interests.axes
    ]
    columns = ("axis", "bits about the region", "region shares, standard deviation",
               *(f"mostly {region}" for region in interests.regions))  # fmt: skip
    topic, language = (axis.name for axis in interests.axes[:2])
    summary = f"a {language} has {information[language]:.3f} bits about the region, a {topic} {information[topic]:.3f}"
    return FigureNumbers(columns, rows, summary, information[language] > 5 * information[topic])


def _popularity(interests: Interests) -> FigureNumbers:
    popularity = interests.popularity
    shares = np.sort(popularity.ravel())[::-1] / popularity.sum()
    ends = np.cumsum(shares)
    top = np.unravel_index(hottest(interests, LISTED), popularity.shape)
    names = [
        " / ".join(a.labels[n] for a, n in zip(interests.axes, cell, strict=True)) for cell in zip(*top, strict=True)
    ]
    rows = [(rank + 1, name, float(shares[rank])) for rank, name in enumerate(names)]
    for rank in (10, 100, 1000, 10_000):
        if rank <= shares.size:
            rows.append((rank, "", float(shares[rank - 1])))
    half = int(np.searchsorted(ends, 0.5)) + 1
    summary = (
        f"{', '.join(f'{share:.1%}' for share in shares[:LISTED])} for the first three; {half:,} interests have half"
    )
    skewed = half <= 0.1 * np.count_nonzero(shares)
    return FigureNumbers(
        ("rank", "interest", "share of all members"), rows, summary, bool(skewed and (shares[:LISTED] >= 0.05).all())
    )


def _removal(interests: Interests) -> FigureNumbers:
    nonzero = int(np.count_nonzero(interests.popularity))
    rows = [(top, *remaining_members(interests, top)) for top in REMOVED if top < nonzero]
    columns = ("most popular removed", "members left, millions", *interests.regions)
    if "Europe" not in interests.regions:
        return FigureNumbers(columns, rows, "regions differ from those of the paper", False)
    europe = [row[2 + interests.regions.index("Europe")] for row in rows]
    fall = max(0.0, *(before - after for before, after in pairwise(europe)))
    summary = f"Europe's share goes from {europe[0]:.1%} to {europe[-1]:.1%} and never falls by more than {fall:.1%}"
    return FigureNumbers(columns, rows, summary, europe[-1] > europe[0] and fall <= MAX_FALL)


def _smoothed(interests: Interests) -> FigureNumbers:
    found = _interests(interests)
    top = interests.popularity.max() / interests.popularity.sum()
    return found._replace(summary=f"p = {DIFFUSION}: {found.summary}; the first interest has {top:.1%}")


FIGURES = {
    1: WorkloadFigure(
        "interests in the event space, by region",
        "Europeans and Asians subscribe to many interests, US subscribers to fewer; many of the Asians' lie at the "
        "left of the map, most of the Europeans' in the middle",
        _interests,
    ),
    2: WorkloadFigure(
        "regions of subscribers along languages and topics",
        "for a cluster of languages most subscribers are Asians, for another Europeans; along topics the regions are "
        "distributed alike",
        _axes,
    ),
    3: WorkloadFigure(
        "popularity of base interests",
        "heavily skewed: (business services, English), (small business, English) and (consulting, English) contain at "
        "least 5 % of the members each",
        _popularity,
    ),
    4: WorkloadFigure(
        "regions as the most popular interests are removed",
        "the share of Europeans rises gradually",
        _removal,
    ),
    5: WorkloadFigure(
        "interests after diffusion", "smoother, with the same differences between regions", _smoothed, True
    ),
    6: WorkloadFigure("regions along languages and topics after diffusion", "as before it, smoother", _axes, True),
}


def select_figures(figure: str | None) -> list[int]:
    """Return the numbers of the selected figures."""
    if figure is None:
        return sorted(FIGURES)
    if figure not in map(str, FIGURES):
        raise ConfigError("unknown figure", figure=figure, choose_from=sorted(FIGURES))
    return [int(figure)]


def draw(number: int, interests: Interests, folder: Path) -> list[Path]:
    """Plot a figure as PNG and SVG."""
    stem = folder / f"figure-{number}"
    title = f"(figure {number})"
    if number == 1:
        return plot_heat_maps(interests, f"Interests by region {title}", stem)
    if number == 2:
        return plot_axes(interests, f"Regions of subscribers {title}", stem)
    if number == 3:
        return plot_popularity(interests, f"Popularity of base interests {title}", stem)
    if number == 4:
        return plot_region_shares(interests, f"Regions as popular interests are removed {title}", stem)
    smooth = diffuse(interests, DIFFUSION)
    if number == 5:
        return plot_heat_maps(smooth, f"Interests by region, diffused with p = {DIFFUSION} {title}", stem)
    return plot_axes(smooth, f"Regions of subscribers, diffused with p = {DIFFUSION} {title}", stem)


def plot_popularity(interests: Interests, title: str, stem: Path) -> list[Path]:
    """Plot the members of every base interest, most popular first."""
    figure, axes = make_figure(title, width=7.0)
    counts = np.sort(interests.popularity.ravel())[::-1]
    counts = counts[counts > 0]
    axes.loglog(np.arange(1, counts.size + 1), counts, color=OURS)
    axes.set_xlabel("rank")
    axes.set_ylabel("members")
    return save(figure, stem)


def plot_region_shares(interests: Interests, title: str, stem: Path) -> list[Path]:
    """Plot the shares of regions over the number of removed interests."""
    figure, axes = make_figure(title, width=7.0)
    nonzero = int(np.count_nonzero(interests.popularity))
    tops = [top for top in REMOVED if top < nonzero]
    shares = np.array([remaining_members(interests, top)[1:] for top in tops])
    for region, name in enumerate(interests.regions):
        axes.plot(tops, shares[:, region], label=name, color=COLOURS[region % len(COLOURS)], marker="o", markersize=3)
    axes.set_xscale("symlog")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("most popular interests removed")
    axes.set_ylabel("share of the members")
    axes.legend(frameon=False, fontsize=9)
    return save(figure, stem)
