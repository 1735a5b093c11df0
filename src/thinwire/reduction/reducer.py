"""Reduce: an event comes in, and what its receivers cannot know comes out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from thinwire.errors import TooManySources
from thinwire.events.paths import flatten
from thinwire.formats.partial import Partial, indexes
from thinwire.frames.control import MAX_SKIP, Switch
from thinwire.reduction import generate, lane_codes, residual, snapshots
from thinwire.reduction.admission import Admission
from thinwire.reduction.columns import DUE, TOLD, Columns
from thinwire.reduction.first_values import first_value
from thinwire.reduction.limits import ABSENT, TICK_LIMIT
from thinwire.reduction.materialise import value_at, value_of_exact
from thinwire.reduction.pacing import LatePolicy, Pacing
from thinwire.reduction.rules import RuleSet

MAX_SOURCES = 1_000_000
FIRST_TRIAL = 2

if TYPE_CHECKING:
    from thinwire.reduction.trials import Trials


class Introduction(NamedTuple):
    """A source never seen before: its dimensions, its state after its first event, and exact values beside it."""

    source: int
    dimensions: bytes
    columns: bytes
    exceptions: tuple[tuple[int, Any], ...]


class Reducer:
    """The publishing end of a link's shared knowledge.

    >>> from thinwire.events import Property, Schema
    >>> from thinwire.reduction import Demand, resolve
    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> reducer = Reducer(resolve(rooms, Demand(tolerance={"t": 0.5}, predictor="last")))
    >>> first = reducer.reduce({"room": "11.1", "t": 20.0})
    >>> reducer.reduce({"room": "11.1", "t": 20.4}) is None
    True
    >>> reducer.reduce({"room": "11.1", "t": 21.7}).mask
    1
    """

    def __init__(
        self,
        rules: RuleSet,
        *,
        late_policy: LatePolicy = "accept",
        max_sources: int = MAX_SOURCES,
    ) -> None:
        self.rules = rules
        self.schema = rules.schema
        self.columns = Columns(rules)
        self.keys: list[tuple[Any, ...]] = []
        self.rows: dict[tuple[Any, ...], int] = {}
        self.max_sources = max_sources
        self.late_policy = late_policy
        self.trials = _trials(self.columns) if any(rule.auto for rule in rules.rules) else None
        self.suppressed = 0
        self.sent = 0
        self._admission = Admission(self.schema)
        self._pacing = Pacing(self.columns)
        self._code = self._compile()

    def reduce(self, event: Mapping[str, Any]) -> Partial | Introduction | None:
        """What must travel of this event; None where nothing must. A refused event changes nothing."""
        return self._code(flatten(event, self.schema) if self.schema.nested else event)

    def reduce_flat(self, event: Mapping[str, Any]) -> Partial | Introduction | None:
        """The same, for an event that already has one value per path."""
        return self._code(event)

    def skipped(self, row: int) -> int:
        """Events of a source that nobody has been told about yet; from now on they count as told."""
        table, start = self.columns.table, row * self.columns.width
        skip = table[start] - table[start + TOLD]
        table[start + TOLD] = table[start]
        return skip

    def values(self, partial: Partial) -> dict[int, Any]:
        """The values of a partial spelled out, for formats that do so."""
        values: dict[int, Any] = {}
        for position, index in enumerate(indexes(partial.mask)):
            rule = self.rules.rules[index]
            if partial.exceptions >> index & 1:
                values[index] = value_of_exact(rule, partial.codes[position])
            else:
                values[index] = value_at(self.columns, rule, index, partial.source)
        return values

    def take_over(self, old: Reducer) -> None:
        """Begin with the sources of another reducer of the same schema, at the values it has told."""
        pairs = zip(self.rules.rules, old.rules.rules, strict=True)
        stricter = any(new.bound < former.bound for new, former in pairs)
        for key in old.keys:
            row = self.columns.add()
            self.rows[key] = row
            self.keys.append(key)
            self.columns.take_over(old.columns, row)
            start = row * self.columns.width
            if stricter or old.columns.is_near(row):
                self.columns.near[row] = self.columns.table[start]
            self.columns.table[start + TOLD] = self.columns.table[start]
            self.columns.table[start + DUE] = self.columns.table[start] + 1
            self._pacing.resume(row)

    def drain_switches(self) -> list[Switch]:
        """Changes of predictor that must be told before the next event."""
        if self.trials is None:
            return []
        return [Switch(row, self.skipped(row), changes) for row, changes in self.trials.drain()]

    def dimensions(self, row: int) -> bytes:
        """The dimension values of a source, as JSON."""
        return json.dumps(list(self.keys[row]), separators=(",", ":"), ensure_ascii=False).encode()

    def _compile(self) -> Callable[[Mapping[str, Any]], Partial | Introduction | None]:
        late = self.late_policy == "reject" and self._pacing.time is not None
        source = generate.reducer_source(self.rules, self.columns.width, late, self._admission.must_weigh)
        names: dict[str, Any] = {
            "ABSENT": ABSENT,
            "LIMIT": TICK_LIMIT,
            "PROPERTIES": len(self.schema.properties),
            "NAMES": self._admission.names,
            "rows": self.rows,
            "columns": self.columns,
            "expected": self.columns.expected,
            "settle": self.columns.settle,
            "encode_residual": residual.encode,
            "decode_residual": residual.decode,
            "refuse": self._admission.refuse,
            "check_names": self._admission.check_names,
            "check_weight": self._admission.check_weight,
            "check_time": self._check_time,
            "held_back": self._held_back,
            "introduce": self._introduce,
            "finish": self._finish,
            **{name: getattr(lane_codes, name) for name in _LANE_FUNCTIONS},
        }
        for index, rule in enumerate(self.rules.rules):
            names[f"rule{index}"] = rule
            names[f"convert{index}"] = self._admission.converters[index]
            names[f"objects{index}"] = self.columns.objects[index]
        exec(compile(source, "<reduce>", "exec"), names)
        code: Callable[[Mapping[str, Any]], Partial | Introduction | None] = names["reduce"]
        return code

    def _finish(
        self, row: int, mask: int, exceptional: int, codes: list[Any], ticks: tuple[Any, ...]
    ) -> Partial | None:
        table, start = self.columns.table, row * self.columns.width
        ordinal = table[start] + 1
        table[start] = ordinal
        if self.trials is not None and ordinal >= table[start + DUE]:
            self.trials.offer(row, ticks)
        skip = ordinal - table[start + TOLD] - 1
        if not mask and skip < MAX_SKIP - 1:
            self.suppressed += 1
            return None
        table[start + TOLD] = ordinal
        self.sent += 1
        return Partial(row, skip, mask, exceptional, codes)

    def _introduce(self, key: tuple[Any, ...], ticks: tuple[Any, ...], event: Mapping[str, Any]) -> Introduction:
        if len(self.keys) >= self.max_sources:
            raise TooManySources(limit=self.max_sources)
        self._admission.check_key(key)
        row = self.columns.add()
        self.rows[key] = row
        self.keys.append(key)
        told = self._first_values(row, ticks, event)
        table, start = self.columns.table, row * self.columns.width
        table[start] = table[start + TOLD] = 1
        table[start + DUE] = FIRST_TRIAL
        self._pacing.begin(row, ticks)
        self.sent += 1
        return Introduction(row, self.dimensions(row), snapshots.take(self.columns, row), told)

    def _first_values(self, row: int, ticks: tuple[Any, ...], event: Mapping[str, Any]) -> tuple[tuple[int, Any], ...]:
        told: list[tuple[int, Any]] = []
        for index, rule in enumerate(self.rules.rules):
            value = event.get(rule.property.name)
            answer = first_value(self.columns, rule, row, index, ticks[index], value)
            if answer is not None:
                told.append((index, answer))
        return tuple(told)

    def _held_back(self, row: int, ticks: tuple[Any, ...]) -> bool:
        held_back = self._pacing.holds_back(row, ticks)
        self.suppressed += held_back
        return held_back

    def _check_time(self, row: int, ticks: tuple[Any, ...]) -> None:
        self._pacing.check(row, ticks, self.keys[row])


def _trials(columns: Columns) -> Trials:
    """Trials need the compiled kernels, which cost half a second to load: only `auto` pays for them."""
    from thinwire.reduction.trials import Trials

    return Trials(columns)


_LANE_FUNCTIONS = ("tick_exception", "flag_exception", "float_code", "geo_code", "object_code", "array_code")
