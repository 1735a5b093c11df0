"""What the edge makes of the positions of taxis, so that no taxi can be told from what leaves it.

Workers load this file alone.

>>> import json
>>> one = {"timestamp": "t1", "taxi": "taxi-1", "latitude": 40.7128, "longitude": -74.006, "speed": 20.0,
...        "occupied": False, "region": "region-03-11"}
>>> json.loads(anonymised(json.dumps(one).encode()))
{'timestamp': 't1', 'latitude': 40.71, 'longitude': -74.01, 'occupied': False, 'region': 'region-03-11'}
>>> for number in (1, 2, 3, 4):
...     update = aggregated(json.dumps({**one, "taxi": f"taxi-{number}", "occupied": number == 4}).encode())
>>> json.loads(update)
{'region': 'region-03-11', 'timestamp': 't1', 'taxis': 4, 'free': 3, 'speed': 20.0}
>>> learned(json.dumps({"region-03-11": 45.0}).encode())
>>> json.loads(aggregated(json.dumps(one).encode()))["slow"]
True
>>> learned(b"{}")
"""

from __future__ import annotations

import json

FEWEST = 3
"""taxis below which a region says nothing: an average of one is that one"""
MOST = 10_000
PLACES = 2
"""decimal places of a position that leave the edge: about a kilometre"""

SLOW = 0.5
"""share of its usual speed below which traffic in a region is slow"""

_regions: dict[str, dict[str, tuple[bool, float]]] = {}
_usual: dict[str, float] = {}


def learned(model: bytes) -> None:
    """The usual speed of every region, as Spark finds it (`taxi_training.usual`)."""
    _usual.clear()
    _usual.update(json.loads(model))


def aggregated(body: bytes) -> bytes | None:
    """How many taxis a region has, how many are free and how fast they are; nothing where there are too few."""
    event = json.loads(body)
    taxis = _regions.setdefault(event["region"], {})
    taxis[event["taxi"]] = (bool(event["occupied"]), float(event["speed"]))
    while len(taxis) > MOST:
        del taxis[next(iter(taxis))]
    if len(taxis) < FEWEST:
        return None
    free = sum(not occupied for occupied, _ in taxis.values())
    speed = round(sum(speed for _, speed in taxis.values()) / len(taxis), 1)
    update = {"region": event["region"], "timestamp": event["timestamp"], "taxis": len(taxis), "free": free}
    usual = _usual.get(event["region"])
    told = {} if usual is None else {"slow": speed < SLOW * usual}
    return json.dumps({**update, "speed": speed, **told}).encode()


def anonymised(body: bytes) -> bytes:
    """The event without its taxi and its speed, its position rounded."""
    event = json.loads(body)
    kept = {name: event[name] for name in ("timestamp", "occupied", "region")}
    place = {name: round(event[name], PLACES) for name in ("latitude", "longitude")}
    return json.dumps({"timestamp": kept.pop("timestamp"), **place, **kept}).encode()
