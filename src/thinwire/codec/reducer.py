"""Reduction of events to the values that receivers cannot predict."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from thinwire.codec import code_generation, value_encoder
from thinwire.codec.code_generation import define, picker
from thinwire.codec.event_admission import Admission, EventPacing, LatePolicy
from thinwire.codec.kernels.rule_table import build_rule_table
from thinwire.codec.row_map import RowMap, Source
from thinwire.codec.row_snapshot import snapshot_row
from thinwire.codec.rules import Rule, RuleSet
from thinwire.codec.source_table import DUE, INTERVAL_START, LAST_SENT, LATEST, SourceTable, copy_rows
from thinwire.codec.ticks import ABSENT, TICK_LIMIT, decode_residual, encode_residual
from thinwire.codec.value_decoder import value_of_exact, value_reader
from thinwire.codec.value_encoder import ChangeGate, Flags, first_value
from thinwire.errors import TooManySources
from thinwire.schema import Event
from thinwire.schema.event import flatten
from thinwire.wire import SourceState
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.partial_event import EncodingKind, PartialEvent, indexes

MAX_SOURCES = 1_000_000
Ints = npt.NDArray[np.int64]

if TYPE_CHECKING:
    from thinwire.codec.expander import Expander
    from thinwire.codec.predictor_trials import PredictorTrials


class Introduction(NamedTuple):
    """A new source: its state after the first event, and values that the state cannot represent."""

    state: SourceState
    exceptions: tuple[tuple[int, Any], ...]


class Reducer:
    """Reduces events to partial events. It owns the source table of a stream encoder and the predictor trials.

    validated: events come from a decoder. They need no validation, have ordinals and flags of their own, and may have
        properties that the schema does not have
    row_map: rows of the sources. It may be shared with other reducers until their sources differ

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
        row_map: RowMap | None = None,
    ) -> None:
        self.validated = validated
        self.rules = rules
        self.schema = rules.schema
        self.table = SourceTable(rules)
        self.row_map = row_map or RowMap()
        self.max_sources = max_sources
        self.late_policy = late_policy
        self.trials: PredictorTrials | None = None
        if any(rule.auto for rule in rules.rules):
            from thinwire.codec.predictor_trials import PredictorTrials  # its kernels take half a second to load

            self.trials = PredictorTrials(self.table)
        self.suppressed = 0
        self._admission = Admission(self.schema)
        self._pacing = EventPacing(self.table)
        self._gate = ChangeGate(self.table)
        self.pick = picker(self.schema)
        """returns the schema's values by path from an event of a decoder"""
        self.reduce_flat = self._compile()
        """reduces an event that has one value per path; of a validated reducer also its ordinal and flags"""

    @property
    def keys(self) -> list[Source]:
        """The sources in row order."""
        return self.row_map.sources[: self.table.rows]

    @property
    def source_count(self) -> int:
        return self.table.rows

    def row_of(self, key: Source) -> int | None:
        """Return the row of a source, or None if it is unknown."""
        row = self.row_map.rows.get(key)
        return None if row is None or row >= self.table.rows else row

    def row_lookup(self) -> Callable[[Source], int | None]:
        """Return the fastest lookup of rows. Only the row map of a validated reducer is shared or replaced."""
        return self.row_of if self.validated else self.row_map.rows.get

    def reduce(self, event: Mapping[str, Any]) -> PartialEvent | Introduction | None:
        """Return the values of an event that must be sent, or None. A rejected event changes nothing."""
        if self.validated:
            return self.reduce_decoded(event)
        return self.reduce_flat(flatten(event, self.schema) if self.schema.nested else event)

    def reduce_decoded(self, event: Mapping[str, Any]) -> PartialEvent | Introduction | None:
        """Reduce an event of a decoder. A new source starts with the ordinal of its event."""
        ordinal, flags = (event.ordinal, event.flags) if isinstance(event, Event) else (1, ())
        return self.reduce_flat(self.pick(event), ordinal, flags)

    def take_suppressed(self, row: int) -> int:
        """Return the number of suppressed events of a source that no frame has reported, and mark them as reported."""
        cells, start = self.table.cells, row * self.table.width
        skip = cells[start] - cells[start + LAST_SENT]
        cells[start + LAST_SENT] = cells[start]
        return skip

    def values(self, partial: PartialEvent) -> dict[int, Any]:
        values: dict[int, Any] = {}
        for index, code in zip(indexes(partial.mask), partial.codes, strict=True):
            if partial.exceptions >> index & 1:
                values[index] = value_of_exact(self.rules.rules[index], code)
            else:
                values[index] = self._value_readers[index](partial.source)
        return values

    @cached_property
    def _value_readers(self) -> list[Callable[[int], Any]]:
        """Functions that return the value of a property in a row; created for the JSON format only."""
        return [value_reader(self.table, rule, index) for index, rule in enumerate(self.rules.rules)]

    def continue_from(self, old: Reducer) -> None:
        """Start with the sources of another reducer of the same schema and row map, at its sent values."""
        copy_rows(self.table, old.table, range(old.table.rows))
        self._pacing.resume()
        self.suppressed = old.suppressed
        if any(new.bound < former.bound for new, former in zip(self.rules.rules, old.rules.rules, strict=True)):
            self.table.approximate = {row: self.table.ordinal(row) for row in range(self.table.rows)}

    def adopt(
        self, expander: Expander, chosen: Callable[[Source], bool] | None = None, row_map: RowMap | None = None
    ) -> None:
        """Start with the sources of an expander, or those that `chosen` selects, at their values.

        row_map: row map of other reducers of the same sources; shared if the rows agree
        """
        if self.table.rows:
            raise ValueError("this reducer already has sources")
        found = [(row, key) for row, key in enumerate(expander.keys) if key is not None]
        if chosen is not None:
            found = [(row, key) for row, key in found if chosen(key)]
        if len(found) > self.max_sources:
            raise TooManySources(limit=self.max_sources)
        keys = [key for _, key in found]
        self.row_map = row_map if row_map is not None and row_map.starts_with(keys) else RowMap(keys)
        copy_rows(self.table, expander.table, [row for row, _ in found])
        if found:
            self.table.by_row()[:, [LATEST, INTERVAL_START]] = ABSENT  # an expander does not store event times
        self._pacing.resume()

    def source_state(self, row: int) -> SourceState:
        """Return a source for a key frame or an introduction."""
        dimensions = json.dumps(self.row_map.sources[row], separators=(",", ":"), ensure_ascii=False).encode()
        return SourceState(dimensions, self.table.ordinal(row), snapshot_row(self.table, row))

    def last_ordinal(self, row: int) -> int:
        """Return the ordinal of the last event of a row."""
        return self.table.ordinal(row)

    def last_sent(self, row: int) -> int:
        """Return the ordinal up to which frames have reported the events of a source."""
        return self.table.cells[row * self.table.width + LAST_SENT]

    def must_send_next(self, row: int) -> bool:
        """Check whether the next event of a source needs a frame even if no value changed."""
        cells, start = self.table.cells, row * self.table.width
        return cells[start + DUE] == cells[start] + 1

    def require_event(self, row: int, ordinal: int) -> None:
        """Send the event with this ordinal even if no value changed. Only for rules with `changes`."""
        self.table.cells[row * self.table.width + DUE] = ordinal

    def quiet_interval(self, row: int, rule: Rule) -> tuple[int, int] | None:
        """Return the lowest and the highest tick of a held property that need no frame; None if there are none.

        A tick in the interval is within the tolerance of the last sent value, in the declared range, and on the same
        side of the idle band.
        """
        last = self.table.last(row, rule.first_slot)
        if last == ABSENT:
            return None
        low, high = last - rule.tolerance, last + rule.tolerance
        if rule.band and low > 0:
            low = max(low, rule.band + 1)
        elif rule.band and high < 0:
            high = min(high, -rule.band - 1)
        return max(low, rule.lowest), min(high, rule.highest)

    def advance_to(self, row: int, ordinal: int) -> int:
        """Advance a source to `ordinal` as if every value up to it had been predicted. Return the number of events."""
        table = self.table
        skipped = ordinal - table.ordinal(row)
        if skipped <= 0:
            return 0
        if not table.moving[row]:
            table.cells[row * table.width] = ordinal
        elif self._rule_table is not None:
            from thinwire.codec.kernels.slot_updates import advance_source

            advance_source(self._rule_table, table.view(), table.width, row, ordinal)
        else:
            for _ in range(skipped):
                table.advance(row)
        return skipped

    def advance_all(self, positions: Ints, ordinals: Ints) -> int:
        """Advance every source to `ordinals[positions[row]]`. Return the number of events. Needs compiled kernels."""
        from thinwire.codec.kernels.slot_updates import advance_sources

        if not self.table.rows:
            return 0
        assert self._rule_table is not None
        return advance_sources(self._rule_table, self.table.view(), self.table.width, positions, ordinals)

    @cached_property
    def _rule_table(self) -> Ints | None:
        """The rules as kernels read them; None if the kernels cannot advance the table.

        They advance ticks with built-in predictors. Predictions of other kinds are constant, except those of positions.
        """
        is_moving = not self.rules.hold and any(rule.encoding is EncodingKind.GEO for rule in self.rules.rules)
        if find_spec("numba") is None or self.rules.custom or is_moving:
            return None
        return build_rule_table(self.table)

    def _compile(self) -> Callable[..., PartialEvent | Introduction | None]:
        late = self.late_policy == "reject" and self._pacing.time is not None
        source = code_generation.reducer_source(
            self.rules, self.table.width, late, self._admission.needs_size_check, self.validated
        )
        names: dict[str, Any] = {
            "ABSENT": ABSENT,
            "LIMIT": TICK_LIMIT,
            "PROPERTIES": len(self.schema.properties),
            "NAMES": self._admission.names,
            "row_of": self.row_lookup(),
            "table": self.table,
            "predicted": self.table.predicted,
            "set_value": self.table.set_value,
            "encode_residual": encode_residual,
            "decode_residual": decode_residual,
            "reject": self._admission.reject,
            "check_names": self._admission.check_names,
            "check_size": self._admission.check_size,
            "check_time": self._pacing.check,
            "is_too_soon": self._pacing.is_too_soon,
            "is_unchanged": self._gate.is_unchanged,
            "suppress": self._suppress,
            "outside": value_encoder.outside,
            "introduce": self._introduce,
            "finish": self._finish,
            **{name: getattr(value_encoder, name) for name in _ENCODING_FUNCTIONS},
        }
        for index, rule in enumerate(self.rules.rules):
            names[f"rule{index}"] = rule
            names[f"convert{index}"] = self._admission.converters[index]
            names[f"objects{index}"] = self.table.objects[index]
        code: Callable[..., PartialEvent | Introduction | None] = define("reduce", source, names)
        return code

    def _finish(
        self, row: int, mask: int, exceptional: int, codes: list[Any], ticks: tuple[Any, ...]
    ) -> PartialEvent | None:
        cells, start = self.table.cells, row * self.table.width
        ordinal = cells[start] + 1
        cells[start] = ordinal
        if self.trials is not None and ordinal >= cells[start + DUE]:
            self.trials.add_event(row, ticks)
        skip = ordinal - cells[start + LAST_SENT] - 1
        if not mask and skip < MAX_SKIP - 1 and not self.rules.changes:
            self.suppressed += 1
            return None
        cells[start + LAST_SENT] = ordinal
        return PartialEvent(row, skip, mask, exceptional, codes)

    def _introduce(
        self, key: Source, ticks: tuple[Any, ...], event: Mapping[str, Any], ordinal: int = 1, flags: Flags = ()
    ) -> Introduction:
        if self.table.rows >= self.max_sources:
            raise TooManySources(limit=self.max_sources)
        if not self.validated:
            self._admission.check_key(key)
        row = self.table.add()
        if isinstance(event, Event) and event.source == key:
            key = event.source  # the decoder stores the same object
        if not self.row_map.add(key, row):
            self.row_map = RowMap([*self.row_map.sources[:row], key])
        cells, start = self.table.cells, row * self.table.width
        cells[start] = ordinal - 1
        exact_values = self._first_values(row, ticks, event, flags)
        cells[start] = cells[start + LAST_SENT] = ordinal
        if not self.rules.changes:
            cells[start + DUE] = ordinal + 1
        self._pacing.begin(row, ticks)
        return Introduction(self.source_state(row), exact_values)

    def _first_values(
        self, row: int, ticks: tuple[Any, ...], event: Mapping[str, Any], flags: Flags
    ) -> tuple[tuple[int, Any], ...]:
        exact_values: list[tuple[int, Any]] = []
        for index, rule in enumerate(self.rules.rules):
            value = event.get(rule.property.name)
            outside = value_encoder.is_outside(rule, value, flags)
            exact = first_value(self.table, rule, row, index, ticks[index], value, outside)
            if exact is not None:
                exact_values.append((index, exact))
        return tuple(exact_values)

    def _suppress(self, row: int) -> None:
        self.table.advance(row)
        self.suppressed += 1


_ENCODING_FUNCTIONS = ("tick_exception", "flag_exception", "float_code", "geo_code", "object_code", "array_code")
