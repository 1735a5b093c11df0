"""Reduce: an event comes in, and what its receivers cannot know comes out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from thinwire.codec import code_generation as generate
from thinwire.codec import row_snapshot as snapshots
from thinwire.codec import ticks as residual
from thinwire.codec import value_encoder as exceptions
from thinwire.codec import value_encoder as lane_codes
from thinwire.codec.code_generation import define, picker
from thinwire.codec.event_admission import Admission, LatePolicy, Pacing
from thinwire.codec.rules import RuleSet
from thinwire.codec.source_table import DUE, LATEST, TOLD, TRAVELLED, Key, Roster, SourceTable, take_over
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.codec.value_decoder import shower, value_of_exact
from thinwire.codec.value_encoder import Flags, Gate, first_value
from thinwire.errors import TooManySources
from thinwire.schema import Event
from thinwire.schema.event import flatten
from thinwire.wire.control_frames import MAX_SKIP, Switch
from thinwire.wire.partial_event import Partial, indexes

MAX_SOURCES = 1_000_000

if TYPE_CHECKING:
    from thinwire.codec.expander import Expander
    from thinwire.codec.predictor_trials import Trials


class Introduction(NamedTuple):
    """A source never seen before: its dimensions, the number of its first event, its state after that, and exact values
    beside it."""

    source: int
    dimensions: bytes
    ordinal: int
    columns: bytes
    exceptions: tuple[tuple[int, Any], ...]


class Reducer:
    """The publishing end of a link's shared knowledge.

    validated: events come from a decoder: they are known to be good, have numbers and flags of their own, and may carry
        properties that the schema does not have
    roster: which row a source has; another one once its sources and those of the roster part ways

    >>> from thinwire.schema import Property, Schema
    >>> from thinwire.codec import Demand, resolve
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
        validated: bool = False,
        roster: Roster | None = None,
    ) -> None:
        self.validated = validated
        self.rules = rules
        self.schema = rules.schema
        self.columns = SourceTable(rules)
        self.roster = roster or Roster()
        self.max_sources = max_sources
        self.late_policy = late_policy
        self.trials = _trials(self.columns) if any(rule.auto for rule in rules.rules) else None
        self.suppressed = 0
        self.sent = 0
        self._admission = Admission(self.schema)
        self._pacing = Pacing(self.columns)
        self._gate = Gate(self.columns)
        self.pick = picker(self.schema)
        """the schema's values by path, of an event that a decoder handed out"""
        self._code = self._compile()

    @property
    def keys(self) -> list[Key]:
        """The sources, by row."""
        return self.roster.keys[: self.columns.rows]

    def row_of(self, key: Key) -> int | None:
        """The row of a source; None for one never seen."""
        row = self.roster.rows.get(key)
        return None if row is None or row >= self.columns.rows else row

    def finder(self) -> Callable[[Key], int | None]:
        """The fastest way to `row_of`: only a trusting reducer shares its roster, or leaves it for another."""
        return self.row_of if self.validated else self.roster.rows.get

    def reduce(self, event: Mapping[str, Any]) -> Partial | Introduction | None:
        """What must travel of this event; None where nothing must. A refused event changes nothing."""
        if self.validated:
            return self.reduce_decoded(event)
        return self._code(flatten(event, self.schema) if self.schema.nested else event)

    def reduce_flat(self, event: Mapping[str, Any]) -> Partial | Introduction | None:
        """The same, for an event that already has one value per path."""
        return self._code(event)

    def reduce_decoded(self, event: Mapping[str, Any]) -> Partial | Introduction | None:
        """The same, for a trusting reducer: a new source begins with the number that its event has."""
        ordinal, flags = (event.ordinal, event.flags) if isinstance(event, Event) else (1, ())
        return self._code(self.pick(event), ordinal, flags)

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
            if partial.exceptions >> index & 1:
                values[index] = value_of_exact(self.rules.rules[index], partial.codes[position])
            else:
                values[index] = self._showers[index](partial.source)
        return values

    @cached_property
    def _showers(self) -> list[Callable[[int], Any]]:
        """What shows the value of each property; made where values are spelled out."""
        return [shower(self.columns, rule, index) for index, rule in enumerate(self.rules.rules)]

    def take_over(self, old: Reducer) -> None:
        """Begin with the sources of another reducer of the same schema and roster, at the values it has told."""
        pairs = zip(self.rules.rules, old.rules.rules, strict=True)
        take_over(self.columns, old.columns, range(old.columns.rows))
        self._pacing.resume()
        if any(new.bound < former.bound for new, former in pairs):
            self.columns.near = {row: self.columns.ordinal(row) for row in range(self.columns.rows)}

    def adopt(
        self, expander: Expander, chosen: Callable[[Key], bool] | None = None, roster: Roster | None = None
    ) -> None:
        """Begin with the sources that an expander knows, those of them that are chosen, at the values it has.

        roster: of other reducers that have adopted the same sources; it is shared where that is so
        """
        if self.columns.rows:
            raise ValueError("a reducer that has sources of its own adopts none")
        found = [(row, key) for row, key in enumerate(expander.keys) if key is not None]
        if chosen is not None:
            found = [(row, key) for row, key in found if chosen(key)]
        if len(found) > self.max_sources:
            raise TooManySources(limit=self.max_sources)
        keys = [key for _, key in found]
        self.roster = roster if roster is not None and roster.begins_with(keys) else Roster(keys)
        take_over(self.columns, expander.columns, [row for row, _ in found])
        if found:
            self.columns.by_row()[:, [LATEST, TRAVELLED]] = ABSENT  # an expander has no clock of its own
        self._pacing.resume()

    def drain_switches(self) -> list[Switch]:
        """Changes of predictor that must be told before the next event."""
        if self.trials is None:
            return []
        return [Switch(row, self.skipped(row), changes) for row, changes in self.trials.drain()]

    def dimensions(self, row: int) -> bytes:
        """The dimension values of a source, as JSON."""
        return json.dumps(list(self.roster.keys[row]), separators=(",", ":"), ensure_ascii=False).encode()

    def _compile(self) -> Callable[..., Partial | Introduction | None]:
        late = self.late_policy == "reject" and self._pacing.time is not None
        source = generate.reducer_source(
            self.rules, self.columns.width, late, self._admission.must_weigh, self.validated
        )
        names: dict[str, Any] = {
            "ABSENT": ABSENT,
            "LIMIT": TICK_LIMIT,
            "PROPERTIES": len(self.schema.properties),
            "NAMES": self._admission.names,
            "row_of": self.finder(),
            "columns": self.columns,
            "expected": self.columns.expected,
            "settle": self.columns.set_value,
            "encode_residual": residual.encode,
            "decode_residual": residual.decode,
            "refuse": self._admission.refuse,
            "check_names": self._admission.check_names,
            "check_weight": self._admission.check_weight,
            "check_time": self._check_time,
            "held_back": self._held_back,
            "passes_over": self._passes_over,
            "outside": exceptions.outside,
            "introduce": self._introduce,
            "finish": self._finish,
            **{name: getattr(lane_codes, name) for name in _LANE_FUNCTIONS},
        }
        for index, rule in enumerate(self.rules.rules):
            names[f"rule{index}"] = rule
            names[f"convert{index}"] = self._admission.converters[index]
            names[f"objects{index}"] = self.columns.objects[index]
        code: Callable[..., Partial | Introduction | None] = define("reduce", source, names)
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
        if not mask and skip < MAX_SKIP - 1 and not self.rules.changes:
            self.suppressed += 1
            return None
        table[start + TOLD] = ordinal
        self.sent += 1
        return Partial(row, skip, mask, exceptional, codes)

    def _introduce(
        self, key: Key, ticks: tuple[Any, ...], event: Mapping[str, Any], ordinal: int = 1, flags: Flags = ()
    ) -> Introduction:
        if self.columns.rows >= self.max_sources:
            raise TooManySources(limit=self.max_sources)
        if not self.validated:
            self._admission.check_key(key)
        row = self.columns.add()
        if isinstance(event, Event) and event.source == key:
            key = event.source  # which the decoder keeps anyway
        if not self.roster.put(key, row):
            self.roster = Roster([*self.roster.keys[:row], key])
        table, start = self.columns.table, row * self.columns.width
        table[start] = ordinal - 1
        told = self._first_values(row, ticks, event, flags)
        table[start] = table[start + TOLD] = ordinal
        if not self.rules.changes:
            table[start + DUE] = ordinal + 1
        self._pacing.begin(row, ticks)
        self.sent += 1
        return Introduction(row, self.dimensions(row), ordinal, snapshots.take(self.columns, row), told)

    def _first_values(
        self, row: int, ticks: tuple[Any, ...], event: Mapping[str, Any], flags: Flags
    ) -> tuple[tuple[int, Any], ...]:
        told: list[tuple[int, Any]] = []
        for index, rule in enumerate(self.rules.rules):
            value = event.get(rule.property.name)
            outside = exceptions.is_outside(rule, value, flags)
            answer = first_value(self.columns, rule, row, index, ticks[index], value, outside)
            if answer is not None:
                told.append((index, answer))
        return tuple(told)

    def _held_back(self, row: int, ticks: tuple[Any, ...]) -> bool:
        held_back = self._pacing.holds_back(row, ticks)
        self.suppressed += held_back
        return held_back

    def _passes_over(self, row: int, ticks: tuple[Any, ...], event: Mapping[str, Any], flags: Flags = ()) -> bool:
        passed = self._gate.passes_over(row, ticks, event, flags)
        self.suppressed += passed
        return passed

    def _check_time(self, row: int, ticks: tuple[Any, ...]) -> None:
        self._pacing.check(row, ticks, self.roster.keys[row])


def _trials(columns: SourceTable) -> Trials:
    """Trials need the compiled kernels, which cost half a second to load: only `auto` pays for them."""
    from thinwire.codec.predictor_trials import Trials

    return Trials(columns)


_LANE_FUNCTIONS = ("tick_exception", "flag_exception", "float_code", "geo_code", "object_code", "array_code")
