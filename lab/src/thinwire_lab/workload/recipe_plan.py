"""A plan: a summary after all steps of a recipe, ready to draw any rows of the workload, anywhere and in any order.

>>> from thinwire_lab.workload.builtin_summary import builtin
>>> plan = Plan(builtin(), Recipe(subscriptions=1_000, events=1_000, brokers=10, seed=7))
>>> plan.subscriptions(np.arange(10)).slice(4, 1) == plan.subscriptions(np.array([4]))
True
>>> plan.events(np.arange(2)).schema.names
['id', 'topic_at', 'language_at']
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thinwire_lab.workload.interests.transformations_intervals import intervals, with_noise
from thinwire_lab.workload.places.network_nodes import place_brokers
from thinwire_lab.workload.places.network_nodes_locations import Locations
from thinwire_lab.workload.places.network_nodes_nodes import Nodes
from thinwire_lab.workload.random_rows_randomness import Rows
from thinwire_lab.workload.recipe import Recipe, Stage
from thinwire_lab.workload.recipe_events import EventSource
from thinwire_lab.workload.subscription_sample import Sampler
from thinwire_lab.workload.summary import Summary


class Plan:
    """Draws the rows of a workload; nothing in it changes."""

    def __init__(self, summary: Summary, recipe: Recipe) -> None:
        self.summary = summary
        self.recipe = recipe
        self.stages: list[Stage] = list(recipe.stages(summary.members))
        self.interests = self.stages[-1].interests
        self.axes = self.interests.axes
        plain = recipe.sampling == "plain"
        self._sampler = Sampler(self.interests, recipe.subscriptions, recipe.seed, strata=recipe.strata, plain=plain)
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
