"""Written timestamps in columns: ticks to text, all rows at once, letter for letter what `events.timestamps` writes.

All texts of a form have the same length, so that a column is a matrix of letters: day, clock and fraction are looked up
in small tables.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thinwire.schema.timestamps import ticks_per_second, writer

Ints = npt.NDArray[np.int64]
Letters = npt.NDArray[np.uint8]

_DAY = 86_400
_DAYS_AT_ONCE = 4_096
_DATE, _CLOCK = 10, 8


def stamps(form: str, ticks: Ints, absent: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The instants in this form; null where absent.

    >>> stamps("iso:T3Z", np.array([1516706417250])).to_pylist()
    ['2018-01-23T11:20:17.250Z']
    """
    unit = ticks_per_second(form)
    assert unit is not None, form
    seconds, fraction = np.divmod(ticks, unit)
    days, second = np.divmod(seconds, _DAY)
    sample = np.frombuffer(str(writer(form)(0)).encode(), dtype=np.uint8)
    letters = np.empty((len(ticks), len(sample)), dtype=np.uint8)
    letters[:] = sample
    letters[:, :_DATE] = _dates(form, unit, days)
    letters[:, _DATE + 1 : _DATE + 1 + _CLOCK] = _clocks()[second]
    _write_fraction(letters, fraction, unit)
    return _texts(letters, absent)


def _dates(form: str, unit: int, days: Ints) -> Letters:
    """The date of each row: nearly always a few days in a row, so that none has to be searched for."""
    first = int(days.min()) if len(days) else 0
    span = int(days.max()) - first + 1 if len(days) else 0
    if span <= _DAYS_AT_ONCE:
        listed, which = list(range(first, first + span)), days - first
    else:
        unique, which = np.unique(days, return_inverse=True)
        listed = unique.tolist()
    write = writer(form)
    texts = "".join(str(write(day * _DAY * unit))[:_DATE] for day in listed)
    return np.frombuffer(texts.encode(), dtype=np.uint8).reshape(-1, _DATE)[which]


def _write_fraction(letters: Letters, fraction: Ints, unit: int) -> None:
    """Three digits at a time, from the last on."""
    digits = len(str(unit)) - 1
    at = _DATE + 1 + _CLOCK + 1 + digits
    while digits > 0:
        size = min(3, digits)
        fraction, group = np.divmod(fraction, 10**size)
        letters[:, at - size : at] = _groups(size)[group]
        at, digits = at - size, digits - size


def _texts(letters: Letters, absent: npt.NDArray[np.bool_] | None) -> pa.Array:
    rows, width = letters.shape
    places = np.arange(0, (rows + 1) * width, width, dtype=np.int32)[: rows + 1]
    valid = None if absent is None else pa.array(~absent).buffers()[1]
    return pa.StringArray.from_buffers(rows, pa.py_buffer(places), pa.py_buffer(letters.ravel()), valid)


@lru_cache(maxsize=1)
def _clocks() -> Letters:
    """All seconds of a day."""
    text = "".join(f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}" for s in range(_DAY))
    return np.frombuffer(text.encode(), dtype=np.uint8).reshape(_DAY, _CLOCK)


@lru_cache(maxsize=3)
def _groups(size: int) -> Letters:
    """All numbers of so many digits."""
    text = "".join(f"{number:0{size}d}" for number in range(10**size))
    return np.frombuffer(text.encode(), dtype=np.uint8).reshape(-1, size)
