"""Sizes, rates and times as people write them.

>>> number("bandwidth", "56kbit"), number("delay", "150 ms"), number("burst", "16kB")
(7000.0, 0.15, 16000.0)
>>> written("bandwidth", 125_000.0), written("delay", 0.05), written("burst", 0)
('1mbit', '50ms', '')
"""

from __future__ import annotations

import re
from decimal import Decimal

from thinwire.errors import ConfigError

_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}
_BITS = {"bit": 0.125, "kbit": 125.0, "mbit": 125e3, "gbit": 125e6}
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
UNITS = {"bandwidth": _BITS | _BYTES, "delay": _TIMES, "jitter": _TIMES, "burst": _BYTES}
_SHOWN = {"bandwidth": _BITS, "delay": _TIMES, "jitter": _TIMES, "burst": _BYTES}
_EXAMPLES = {"bandwidth": "56kbit or 7kB", "delay": "150ms", "jitter": "20ms", "burst": "16kB"}
_NUMBER = re.compile(r"(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})\s*([A-Za-z]{1,5})(/s)?", re.ASCII)


def number(name: str, text: str, field: str = "") -> float:
    """What a text means in bytes, bytes a second or seconds; bits may be written in any case.

    field: what to call it in a complaint
    """
    match = _NUMBER.fullmatch(text)
    unit = match[2] if match else ""
    unit = unit.lower() if unit.lower() in _BITS else unit
    if match is None or unit not in UNITS[name] or (match[3] and name != "bandwidth"):
        raise ConfigError(f"write it like {_EXAMPLES[name]}", **{field or name: text}, units=list(UNITS[name]))
    return float(match[1]) * UNITS[name][unit]


def written(name: str, value: float | None) -> str:
    """Text that reads back as the same number, in the largest unit that keeps it short; nothing for nothing."""
    if not value:
        return ""
    for unit, size in reversed(_SHOWN[name].items()):
        text = f"{value / size:.12g}"
        if value >= size and "e" not in text and float(text) * size == value:
            return f"{text}{unit}"
    # all digits of the float, in the unit that needs no arithmetic
    return f"{Decimal(repr(float(value))):f}{next(unit for unit, size in UNITS[name].items() if size == 1)}"
