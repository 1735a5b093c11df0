"""Forms of timestamps and their conversion to ticks.

A timestamp property has a *form*: `epoch` (a number in units of the property's step; the default), `datetime` (a Python
datetime with time zone, in microseconds) or a text form `iso` with the separator, the digits after the second and the
suffix: `iso:T3Z` is `2018-01-23T11:20:17.250Z`, `iso: 0` is `2020-03-09 10:14:33`.

>>> form = form_of("2018-01-23T11:20:17.250Z")
>>> form, to_ticks("2018-01-23T11:20:17.250Z", form)
('iso:T3Z', 1516706417250)
>>> writer(form)(1516706417250)
'2018-01-23T11:20:17.250Z'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from thinwire.errors import SchemaError

_FORM = re.compile(r"iso:([T ])([0-9])(Z|\+00:00)?")
_TEXT = re.compile(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d(?:\.(\d{1,9}))?(Z|\+00:00)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)
_DAY = 86_400
_BEYOND = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
"""shown for instants outside the calendar, which predictions and invalid frames can contain"""


def check_form(form: str | None, name: str) -> None:
    """Raise `SchemaError` for an unknown form."""
    if form in (None, "epoch", "datetime") or _FORM.fullmatch(form or ""):
        return
    raise SchemaError("unknown form of timestamp", property=name, form=form, choices=["epoch", "datetime", "iso:T3Z"])


def form_of(text: str) -> str | None:
    """Return the form of a text; None if no form reproduces it exactly."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    form = f"iso:{match[1]}{len(match[2] or '')}{match[3] or ''}"
    return form if to_ticks(text, form) is not None else None


def to_ticks(value: object, form: str) -> int | None:
    """Return the ticks since 1970; None if the value does not have this form."""
    return reader(form)(value)


@lru_cache(maxsize=64)
def reader(form: str) -> Callable[[object], int | None]:
    """Return the function from values of a form to ticks."""
    if form == "datetime":
        return _ticks_of_datetime
    write = writer(form)
    digits = _parts(form)[1]

    def read(value: object) -> int | None:
        if not isinstance(value, str) or len(value) < 19:
            return None
        try:
            since = datetime.fromisoformat(value[:19]) - _NAIVE_EPOCH
            fraction = int(value[20 : 20 + digits]) if digits else 0
            ticks = (since.days * _DAY + since.seconds) * 10**digits + fraction
            return ticks if write(ticks) == value else None
        except (ValueError, TypeError):  # TypeError: the text has an offset before its 19th character
            return None

    return read


@lru_cache(maxsize=64)
def writer(form: str) -> Callable[[int], object]:
    """Return the function from ticks to values of a form."""
    if form == "datetime":
        return _datetime_of_ticks
    separator, digits, suffix = _parts(form)
    unit = 10**digits

    def write(ticks: int) -> str:
        seconds, fraction = divmod(ticks, unit)
        days, second = divmod(seconds, _DAY)
        tail = f".{fraction:0{digits}d}{suffix}" if digits else suffix
        return f"{_day_text(days)}{separator}{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}{tail}"

    return write


def ticks_per_second(form: str | None) -> int | None:
    """Return the number of ticks per second; None if the form does not define it."""
    if form == "datetime":
        return 1_000_000
    return 10 ** _parts(form)[1] if form and form.startswith("iso") else None


def _datetime_of_ticks(ticks: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=ticks)
    except OverflowError:
        return _BEYOND[ticks > 0]


def _ticks_of_datetime(value: object) -> int | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // timedelta(microseconds=1)


def _parts(form: str) -> tuple[str, int, str]:
    match = _FORM.fullmatch(form)
    assert match is not None, form
    return match[1], int(match[2]), match[3] or ""


@lru_cache(maxsize=1024)
def _day_text(days: int) -> str:
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return _BEYOND[days > 0].date().isoformat()
