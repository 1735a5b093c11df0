"""Edge functions that aggregate or anonymise positions of taxis, so that their output identifies no taxi.

Workers load only this file.

>>> import json
>>> event = {"timestamp": "t1", "taxi": "taxi-1", "latitude": 40.7128, "longitude": -74.006, "speed": 20.0,
...          "occupied": False, "region": "region-03-11"}
>>> json.loads(anonymised(json.dumps(event).encode()))
{'timestamp': 't1', 'latitude': 40.71, 'longitude': -74.01, 'occupied': False, 'region': 'region-03-11'}
>>> for number in (1, 2, 3, 4):
...     update = aggregated(json.dumps({**event, "taxi": f"taxi-{number}", "occupied": number == 4}).encode())
>>> json.loads(update)
{'region': 'region-03-11', 'timestamp': 't1', 'taxis': 4, 'free': 3, 'speed': 20.0}
>>> learned(json.dumps({"region-03-11": 45.0}).encode())
>>> json.loads(aggregated(json.dumps(event).encode()))["slow"]
True
>>> learned(b"{}")
"""

from __future__ import annotations

import json

MIN_TAXIS = 3
"""taxis that a region needs for an update: the average of one taxi would identify it"""
MAX_TAXIS = 10_000
DECIMALS = 2
"""decimals of a position that leaves the edge: about a kilometre"""

SLOW = 0.5
"""share of the usual speed below which traffic in a region is slow"""

_regions: dict[str, dict[str, tuple[bool, float]]] = {}
_usual: dict[str, float] = {}


def learned(model: bytes) -> None:
    """Store the usual speed of every region, which Spark computes (`taxi_training.usual`)."""
    _usual.clear()
    _usual.update(json.loads(model))


def aggregated(body: bytes) -> bytes | None:
    """Return the number of taxis in a region, how many are free, and their speed; None if there are too few."""
    event = json.loads(body)
    taxis = _regions.setdefault(event["region"], {})
    taxis[event["taxi"]] = (bool(event["occupied"]), float(event["speed"]))
    while len(taxis) > MAX_TAXIS:
        del taxis[next(iter(taxis))]
    if len(taxis) < MIN_TAXIS:
        return None
    free = sum(not occupied for occupied, _ in taxis.values())
    speed = round(sum(speed for _, speed in taxis.values()) / len(taxis), 1)
    update = {"region": event["region"], "timestamp": event["timestamp"], "taxis": len(taxis), "free": free}
    usual = _usual.get(event["region"])
    traffic = {} if usual is None else {"slow": speed < SLOW * usual}
    return json.dumps({**update, "speed": speed, **traffic}).encode()


def anonymised(body: bytes) -> bytes:
    """Return the event without taxi and speed, with a rounded position."""
    event = json.loads(body)
    kept = {name: event[name] for name in ("timestamp", "occupied", "region")}
    position = {name: round(event[name], DECIMALS) for name in ("latitude", "longitude")}
    return json.dumps({"timestamp": kept.pop("timestamp"), **position, **kept}).encode()
