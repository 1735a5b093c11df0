"""Recipes and plans of workloads.

A recipe has all parameters of a workload; the recipe and a summary determine all rows. A plan applies the steps of a
recipe to a summary and draws any rows in any order.

Events are points of the event space, with the density of the messages of the interests. A kernel spreads the rate of
each base interest beyond its rectangle, so that the gaps between base interests have events too.

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
    diffuse,
    intervals,
    raise_share,
    raise_shared,
    remove_hot,
    with_noise,
)
from thinwire_lab.workload.places.network_nodes import (
    LocationMethod,
    LocationSampler,
    Nodes,
    place_brokers,
)
from thinwire_lab.workload.random_rows import Floats, Ints, find_interval, normals, uniforms
from thinwire_lab.workload.subscription_sample import Sampling, SubscriptionSampler
from thinwire_lab.workload.summary import Summary

Generalisation = Literal["none", "share", "shared"]
"""none: base interests only; share: a fraction of each interest rises; shared: the common part of children rises"""

MAX_ROWS = 10**12
MAX_BROKERS = 1_000_000
MAX_SPREAD = 1e6


@dataclass(frozen=True)
class Recipe:
    """Parameters of a workload.

    remove_hot: number of most popular interests to remove
    diffusion: p, from 1 (no change) to 0 (all equal)
    generalise, fraction: method of generalisation, and fraction of subscribers that it moves to broader interests
    noise: displacement of the corners of rectangles, in halves of the sides
    location, spread: method of placing subscribers, and its standard deviation
    sampling, strata: method of drawing interests, and number of popularity classes
    bandwidth: width of the kernel of events
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
    location: LocationMethod = "near"
    spread: float = 2.0
    sampling: Sampling = "stratified"
    strata: int = 10
    bandwidth: float = 0.5

    def __post_init__(self) -> None:
        _check_range("subscriptions", self.subscriptions, MAX_ROWS)
        _check_range("events", self.events, MAX_ROWS)
        _check_range("brokers", self.brokers, MAX_BROKERS)
        _check_range("seed", self.seed, 2**63 - 1)
        _check_range("diffusion", self.diffusion, 1)
        _check_range("fraction", self.fraction, 1)
        _check_choice("generalise", self.generalise, get_args(Generalisation))
        _check_choice("sampling", self.sampling, get_args(Sampling))
        _check_range("noise", self.noise, 1)
        _check_choice("location", self.location, get_args(LocationMethod))
        _check_range("spread", self.spread, MAX_SPREAD)

    def stages(self, members: Interests) -> Iterator[Stage]:
        """Yield the original interests, and the interests after each step of the recipe."""
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
    """Interests after a step."""

    step: str
    interests: Interests

    def facts(self) -> dict[str, object]:
        """Return the number of subscribers and interests, the regions, and the information about regions in bits."""
        interests = self.interests
        regions = dict(zip(interests.regions, interests.mix.tolist(), strict=True))
        return {
            "step": self.step,
            "subscribers": float(interests.counts.sum()),
            "interests": int((interests.popularity > 0).sum()),
            "regions": regions,
            "bits_about_region": correlations(interests),
        }


def _check_range(name: str, value: float, highest: float) -> None:
    if not 0 <= value <= highest:
        raise ConfigError("out of range", field=name, value=value, lowest=0, highest=highest)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError("unknown value", field=name, value=value, known=list(choices))


class EventSource:
    """Draws events.

    rates: messages per month of each combination of nodes
    bandwidth: standard deviation of the kernel, in lengths of the interval of the interest
    """

    def __init__(self, axes: Sequence[Hierarchy], rates: Floats, seed: int, bandwidth: float = 0.5) -> None:
        if not 0.0 <= bandwidth <= 100.0:
            raise ConfigError("out of range", bandwidth=bandwidth, lowest=0, highest=100)
        if rates.sum() <= 0:
            raise SummaryError("no interest has messages", table="messages", column="per_month")
        self.seed = seed
        self.bandwidth = bandwidth
        self._ends = np.cumsum(rates.ravel())
        self._shape = rates.shape
        self._intervals = [intervals(axis) for axis in axes]

    def interests(self, rows: Ints) -> tuple[Ints, ...]:
        """Return the interest of each row, as one array of nodes per axis."""
        interest = find_interval(self._ends, uniforms(self.seed, "event", rows) * self._ends[-1])
        return tuple(axis.astype(np.int64) for axis in np.unravel_index(interest, self._shape))

    def draw(self, rows: Ints) -> Floats:
        """Return points of the unit cube, one row per row and one column per dimension."""
        nodes = self.interests(rows)
        steps = normals(self.seed, "event: step", rows, len(nodes)) * self.bandwidth
        points = np.empty((rows.size, len(nodes)))
        for axis, node in enumerate(nodes):
            low, high = self._intervals[axis][node].T
            offset = uniforms(self.seed, "event: within", rows, axis)
            points[:, axis] = low + (high - low) * (offset + steps[:, axis])
        return _reflected(points)


def _reflected(points: Floats) -> Floats:
    """Return points with those outside the unit cube reflected at its faces, repeatedly if necessary.

    >>> _reflected(np.array([-0.25, 0.5, 1.25, 2.5])).tolist()
    [0.25, 0.5, 0.75, 0.5]
    """
    folded = np.mod(points, 2.0)
    return np.minimum(folded, 2.0 - folded)


class WorkloadPlan:
    """Draws the rows of a workload. Immutable."""

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
        self._locations = LocationSampler(summary.nodes, recipe.location, recipe.spread)
        self._source = EventSource(self.axes, summary.rates, recipe.seed, recipe.bandwidth)
        self._intervals = [intervals(axis) for axis in self.axes]

    def subscriptions(self, rows: Ints) -> pa.RecordBatch:
        """Return these subscriptions: nodes of the hierarchies, region, rectangle and location.

        Columns: `id`, `region`, for each axis its node, `_low` and `_high`, and the coordinates `at_0`, `at_1` ...
        """
        *nodes, region = self._sampler.draw(rows)
        ends = np.stack([table[node] for table, node in zip(self._intervals, nodes, strict=True)], axis=1)
        low, high = with_noise(ends[..., 0], ends[..., 1], self.recipe.noise, self.recipe.seed, rows)
        points = self._locations.draw(self.recipe.seed, rows, region)
        columns: list[NDArray[Any]] = [rows, region.astype(np.int32)]
        for axis, node in enumerate(nodes):
            columns += [node.astype(np.int32), low[:, axis], high[:, axis]]
        columns += list(points.T)
        return _batch(columns, self.subscription_schema)

    def events(self, rows: Ints) -> pa.RecordBatch:
        """Return these events: `id` and for each axis `_at`, a point of the unit cube."""
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
        fields += [(f"at_{dimension}", pa.float64()) for dimension in range(self._locations.dimensions)]
        return pa.schema([pa.field(name, kind, nullable=True) for name, kind in fields])

    @cached_property
    def event_schema(self) -> pa.Schema:
        return pa.schema([("id", pa.int64()), *((f"{axis.name}_at", pa.float64()) for axis in self.axes)])


def _batch(columns: list[NDArray[Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(np.ascontiguousarray(values), kind) for values, kind in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
