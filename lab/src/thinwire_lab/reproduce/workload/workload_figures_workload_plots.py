"""Figures 1 to 6 of the workload paper as pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from thinwire_lab.reproduce.figure_plots import OURS, save, sheet
from thinwire_lab.reproduce.workload.workload_figures import REMOVED, P
from thinwire_lab.reproduce.workload.workload_figures_workload_shapes import removal
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.interests.transformations import diffuse
from thinwire_lab.workload.workload_pictures_pictures import COLOURS, along_axes, heat_maps


def draw(number: int, members: Interests, folder: Path) -> list[Path]:
    """One figure: PNG to look at, SVG to print."""
    stem = folder / f"figure-{number}"
    title = f"(figure {number})"
    if number == 1:
        return heat_maps(members, f"Interests by region {title}", stem)
    if number == 2:
        return along_axes(members, f"Regions of subscribers {title}", stem)
    if number == 3:
        return popularity(members, f"Popularity of base interests {title}", stem)
    if number == 4:
        return mixes(members, f"Regions as popular interests are removed {title}", stem)
    smooth = diffuse(members, P)
    if number == 5:
        return heat_maps(smooth, f"Interests by region, diffused with p = {P} {title}", stem)
    return along_axes(smooth, f"Regions of subscribers, diffused with p = {P} {title}", stem)


def popularity(members: Interests, title: str, stem: Path) -> list[Path]:
    """Members of every base interest, the most popular first."""
    figure, axes = sheet(title, width=7.0)
    counts = np.sort(members.popularity.ravel())[::-1]
    counts = counts[counts > 0]
    axes.loglog(np.arange(1, counts.size + 1), counts, color=OURS)
    axes.set_xlabel("rank")
    axes.set_ylabel("members")
    return save(figure, stem)


def mixes(members: Interests, title: str, stem: Path) -> list[Path]:
    """The shares of the regions over the number of interests removed."""
    figure, axes = sheet(title, width=7.0)
    there = int(np.count_nonzero(members.popularity))
    tops = [top for top in REMOVED if top < there]
    shares = np.array([removal(members, top)[1:] for top in tops])
    for region, name in enumerate(members.regions):
        axes.plot(tops, shares[:, region], label=name, color=COLOURS[region % len(COLOURS)], marker="o", markersize=3)
    axes.set_xscale("symlog")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("most popular interests removed")
    axes.set_ylabel("share of the members")
    axes.legend(frameon=False, fontsize=9)
    return save(figure, stem)
