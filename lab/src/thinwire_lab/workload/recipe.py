"""A recipe: every parameter of a workload; together with a summary and nothing else it decides every row.

Events: points of the event space, as dense as the messages of the interests there.

Base interests leave gaps between them. A kernel spreads the rate of each beyond its rectangle, so that the gaps have
events too, most of them near the interests they resemble.

A plan: a summary after all steps of a recipe, ready to draw any rows of the workload, anywhere and in any order.

>>> from thinwire_lab.workload.builtin_summary import builtin
>>> plan = WorkloadPlan(builtin(), Recipe(subscriptions=1_000, events=1_000, brokers=10, seed=7))
>>> plan.subscriptions(np.arange(10)).slice(4, 1) == plan.subscriptions(np.array([4]))
True
>>> plan.events(np.arange(2)).schema.names
['id', 'topic_at', 'language_at']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.interests import Interests, correlations
from thinwire_lab.workload.interests.transformations import (
    check_noise,
    diffuse,
    intervals,
    raise_share,
    raise_shared,
    remove_hot,
    with_noise,
)
from thinwire_lab.workload.places.network_nodes import MAX_BROKERS, Locations, Nodes, Way, check_way, place_brokers
from thinwire_lab.workload.random_rows import Floats, Rows, fallen, normals, uniforms
from thinwire_lab.workload.subscription_sample import MAX_ROWS, Sampling, SubscriptionSampler
from thinwire_lab.workload.summary import Summary

Generalisation = Literal["none", "share", "shared"]
"""none: base interests only; share: a fraction of each rises; shared: what children have in common rises"""


@dataclass(frozen=True)
class Recipe:
    """What to draw.

    remove_hot: how many of the most popular interests to leave out
    diffusion: p, from 1, as they are, to 0, all alike
    generalise, fraction: whether and how many subscribers want more than a base interest
    noise: how far corners of rectangles are moved, in halves of the sides
    location, spread: how subscribers are placed
    sampling, strata: how interests are drawn
    bandwidth: how far events reach into the gaps
    """

    subscriptions: int = 100_000
    events: int = 100_000
    brokers: int = 100
    seed: int = 0
    remove_hot: int = 0
    diffusion: float = 1.0
    generalise: Generalisation = "share"
    fraction: float = 0.1
    noise: float = 0.0
    location: Way = "near"
    spread: float = 2.0
    sampling: Sampling = "stratified"
    strata: int = 10
    bandwidth: float = 0.5

    def __post_init__(self) -> None:
        _within("subscriptions", self.subscriptions, MAX_ROWS)
        _within("events", self.events, MAX_ROWS)
        _within("brokers", self.brokers, MAX_BROKERS)
        _within("seed", self.seed, 2**63 - 1)
        _within("diffusion", self.diffusion, 1)
        _within("fraction", self.fraction, 1)
        _known("generalise", self.generalise, get_args(Generalisation))
        _known("sampling", self.sampling, get_args(Sampling))
        check_noise(self.noise)
        check_way(self.location, self.spread)

    def stages(self, members: Interests) -> Iterator[Stage]:
        """The interests as they are, and after each step that the recipe asks for."""
        yield Stage("as they are", members)
        if self.remove_hot:
            members = remove_hot(members, self.remove_hot)
            yield Stage("hot interests removed", members)
        if self.diffusion < 1.0:
            members = diffuse(members, self.diffusion)
            yield Stage("diffused", members)
        if self.generalise != "none" and self.fraction:
            raised = raise_share if self.generalise == "share" else raise_shared
            yield Stage("generalised", raised(members, self.fraction))


class Stage(NamedTuple):
    """The interests after a step."""

    step: str
    interests: Interests

    def facts(self) -> dict[str, object]:
        """How many subscribers there are, where, and what interests tell about places, in bits."""
        found = self.interests
        mix = dict(zip(found.regions, found.mix.tolist(), strict=True))
        return {
            "step": self.step,
            "subscribers": float(found.counts.sum()),
            "interests": int((found.popularity > 0).sum()),
            "regions": mix,
            "bits_about_region": correlations(found),
        }


def _within(name: str, value: float, highest: float) -> None:
    if not 0 <= value <= highest:
        raise ConfigError("outside its limits", field=name, value=value, lowest=0, highest=highest)


def _known(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError("no such choice", field=name, value=value, known=list(choices))


class EventSource:
    """Draws events.

    rates: messages per month of every combination of nodes
    bandwidth: how far the kernel reaches (standard deviation), in lengths of the interval that an event comes from
    """

    def __init__(self, axes: Sequence[Hierarchy], rates: Floats, seed: int, bandwidth: float = 0.5) -> None:
        if not 0.0 <= bandwidth <= 100.0:
            raise ConfigError("outside its limits", bandwidth=bandwidth, lowest=0, highest=100)
        if rates.sum() <= 0:
            raise SummaryError("no interest has messages", table="messages", column="per_month")
        self.seed = seed
        self.bandwidth = bandwidth
        self.rate = float(rates.sum())
        self._ends = np.cumsum(rates.ravel())
        self._shape = rates.shape
        self._intervals = [intervals(axis) for axis in axes]

    def interests(self, rows: Rows) -> tuple[Rows, ...]:
        """The interest that each row comes from, as a node of every axis."""
        interest = fallen(self._ends, uniforms(self.seed, "event", rows) * self._ends[-1])
        return tuple(axis.astype(np.int64) for axis in np.unravel_index(interest, self._shape))

    def draw(self, rows: Rows) -> Floats:
        """A point for each row, a column a dimension, within the unit cube."""
        nodes = self.interests(rows)
        steps = normals(self.seed, "event: step", rows, len(nodes)) * self.bandwidth
        points = np.empty((rows.size, len(nodes)))
        for axis, node in enumerate(nodes):
            low, high = self._intervals[axis][node].T
            within = uniforms(self.seed, "event: within", rows, axis)
            points[:, axis] = low + (high - low) * (within + steps[:, axis])
        return _reflected(points)


def _reflected(points: Floats) -> Floats:
    """Points beyond the unit cube, mirrored at its walls as often as it takes.

    >>> _reflected(np.array([-0.25, 0.5, 1.25, 2.5])).tolist()
    [0.25, 0.5, 0.75, 0.5]
    """
    around = np.mod(points, 2.0)
    return np.minimum(around, 2.0 - around)


class WorkloadPlan:
    """Draws the rows of a workload; nothing in it changes."""

    def __init__(self, summary: Summary, recipe: Recipe) -> None:
        self.summary = summary
        self.recipe = recipe
        self.stages: list[Stage] = list(recipe.stages(summary.members))
        self.interests = self.stages[-1].interests
        self.axes = self.interests.axes
        plain = recipe.sampling == "plain"
        self._sampler = SubscriptionSampler(
            self.interests, recipe.subscriptions, recipe.seed, strata=recipe.strata, plain=plain
        )
        self._locations = Locations(summary.nodes, recipe.location, recipe.spread)
        self._source = EventSource(self.axes, summary.rates, recipe.seed, recipe.bandwidth)
        self._intervals = [intervals(axis) for axis in self.axes]

    def subscriptions(self, rows: Rows) -> pa.RecordBatch:
        """These subscriptions: nodes of the hierarchies, region, rectangle and place.

        Columns: `id`, `region`, for each axis its node, `_low` and `_high`, and the coordinates `at_0`, `at_1` ...
        """
        *nodes, region = self._sampler.draw(rows)
        ends = np.stack([table[node] for table, node in zip(self._intervals, nodes, strict=True)], axis=1)
        low, high = with_noise(ends[..., 0], ends[..., 1], self.recipe.noise, self.recipe.seed, rows)
        points = self._locations.draw(self.recipe.seed, rows, region)
        columns: list[NDArray[Any]] = [rows, region.astype(np.int32)]
        for place, node in enumerate(nodes):
            columns += [node.astype(np.int32), low[:, place], high[:, place]]
        columns += list(points.T)
        return _batch(columns, self.subscription_schema)

    def events(self, rows: Rows) -> pa.RecordBatch:
        """These events: `id` and for each axis `_at`, a point of the unit cube."""
        return _batch([rows, *self._source.draw(rows).T], self.event_schema)

    @cached_property
    def brokers(self) -> Nodes:
        """All brokers."""
        recipe, mix = self.recipe, self.interests.mix
        return place_brokers(self.summary.nodes, mix, recipe.brokers, recipe.seed, self._locations)

    @cached_property
    def subscription_schema(self) -> pa.Schema:
        fields = [("id", pa.int64()), ("region", pa.int32())]
        for axis in self.axes:
            fields += [(axis.name, pa.int32()), (f"{axis.name}_low", pa.float64()), (f"{axis.name}_high", pa.float64())]
        fields += [(f"at_{lane}", pa.float64()) for lane in range(self._locations.dimensions)]
        return pa.schema([pa.field(name, kind, nullable=True) for name, kind in fields])

    @cached_property
    def event_schema(self) -> pa.Schema:
        return pa.schema([("id", pa.int64()), *((f"{axis.name}_at", pa.float64()) for axis in self.axes)])


def _batch(columns: list[NDArray[Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(np.ascontiguousarray(values), kind) for values, kind in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
