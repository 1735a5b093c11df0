"""Examples of every predictor, and of predictor switches."""

from __future__ import annotations

from vector_recording import ROOM, Example, example, temperature

from thinwire.schema import Property


@example
def last_value() -> Example:
    ranged = temperature(minimum=0, maximum=50)
    e = Example(
        "last_value", "TICK, predictor last: bins, absence, off the grid, out of range",
        [ROOM, ranged, Property("n", "integer"), Property("c", "number", step="0.3")],
        demand={"predictor": "last", "tolerance": {"t": 0.5}},
    )  # fmt: skip
    e.start()
    for t, n in [(20.0, 7), (20.5, 7), (20.6, 7), (18.0, -3), (49.9, 10**15), (0.0, -(10**18))]:
        e.publish(t=t, n=n, c=0.3)
    e.publish("absent", t=None, n=0, c=0.3)
    e.publish("still absent: no frame", t=None, n=0, c=0.3)
    e.publish("back", t=20.0, n=0, c=0.3)
    e.publish("off the grid: the double, and the tick next to it as state", t=20.04, n=0, c=0.3)
    e.publish("out of range: exact and flagged", t=61.0, n=0, c=0.3)
    e.publish("again, always told", t=61.0, n=0, c=0.3)
    e.publish("a whole number off the grid: a double, since an integer would count ticks", t=21.0, n=0, c=1)
    e.publish("more ticks than the state holds", t=21.0, n=2**62, c=0.3)
    e.publish("as expected from the state, which is all a silent event shows", t=21.0, n=2**61, c=0.3)
    e.heartbeat(1.0)
    return e


@example
def linear() -> Example:
    demand = {"predictor": "linear", "tolerance": {"t": 0.2}}
    e = Example("linear", "predictor linear", [ROOM, temperature()], demand=demand)
    e.start()
    for t in [10.0, 10.5, 11.0, 11.5, 12.0, 11.0, 10.0, 9.1, 8.0, 30.0]:
        e.publish(t=t)
    e.publish("absent: the line begins anew", t=None)
    for t in [10.0, 11.0, 12.0]:
        e.publish(t=t)
    e.key_frames(5.0, "a key frame with a slope")
    e.publish(t=13.5)
    return e


@example
def trend() -> Example:
    e = Example(
        "trend", "predictor trend (and cadence for the time): level, trend, damping",
        [Property("time", "timestamp", "header", form="iso:T3Z"), ROOM, temperature()],
        demand={"predictor": {"t": "trend"}, "tolerance": {"t": 0.1, "time": 0.002}},
    )  # fmt: skip
    e.start()
    readings = [20.0, 20.4, 20.9, 21.3, 21.8, 22.4, 22.4, 22.3, 21.9, 21.5, 30.0, 29.9, 29.9, 29.9, -5.0, -5.1]
    late = [0, 1, -1, 3, 0, 7, 2, 2, 900, 905, 899, 0, 1, 2, 3, -2]
    for k, (t, jitter) in enumerate(zip(readings, late, strict=True)):
        ticks = 17_000 + 1000 * k + jitter
        e.publish(t=t, time=f"2018-01-23T11:20:{ticks // 1000:02d}.{ticks % 1000:03d}Z")
    e.publish("a timestamp written in another way: as it is", t=-5.2, time="2018-01-23 11:20:33")
    e.publish("absent", t=None, time="2018-01-23T11:20:34.000Z")
    e.key_frames(5.0, "a key frame with a trend, and with an absent value")
    e.publish("back: no trend yet", t=3.0, time="2018-01-23T11:20:35.000Z")
    e.key_frames(9.0, "a fresh trend")
    e.publish(t=4.0, time="2018-01-23T11:20:36.000Z")
    e.publish(t=5.0, time="2018-01-23T11:20:37.001Z")
    e.heartbeat(38.0)
    return e


@example
def smooth() -> Example:
    e = Example(
        "smooth", "predictor smooth: trend mode without a trend", [ROOM, temperature()],
        demand={"predictor": "smooth", "tolerance": {"t": 0.3}},
    )  # fmt: skip
    e.start()
    for t in [20.0, 20.9, 19.4, 20.5, 19.8, 20.2, 20.1, 25.0, 24.6, 25.4, 25.1, -(10.0**13), 25.0]:
        e.publish(t=t)
    e.heartbeat(1.0)
    return e


@example
def seasonal() -> Example:
    e = Example(
        "seasonal", "predictor seasonal, period 3", [ROOM, temperature(period=3)],
        demand={"predictor": "seasonal", "tolerance": {"t": 0.1}},
    )  # fmt: skip
    e.start()
    for t in [1.0, 5.0, 9.0, 1.0, 5.1, 9.0, 1.0, 6.0, 9.0, 1.0, 6.0]:
        e.publish(t=t)
    e.publish("absent: the season keeps what was there", t=None)
    e.key_frames(5.0, "a key frame with a season")
    for t in [1.0, 6.0, 9.0, 1.0]:
        e.publish(t=t)
    e.heartbeat(6.0)
    return e


@example
def hold() -> Example:
    e = Example(
        "hold", "mode hold: last value, exact when it fires", [ROOM, temperature()],
        demand={"mode": "hold", "tolerance": {"t": 0.5}},
    )  # fmt: skip
    e.start()
    for t in [20.0, 20.4, 20.7, 21.2, 21.3, 15.0]:
        e.publish(t=t)
    return e


@example
def changes() -> Example:
    headers = [Property("time", "timestamp", "header"), Property("batch", "string", "header")]
    e = Example(
        "changes", "hold, changes only: headers never make an event travel, and travel exactly with one that does",
        [*headers, ROOM, temperature(maximum=50), Property("on", "boolean")],
        demand={"mode": "hold", "tolerance": {"t": 0.5}, "changes": True},
    )  # fmt: skip
    e.start()
    e.publish(time=1000, batch="a", t=20.0, on=True)
    e.publish("within the tolerance: no frame, whatever the headers are", time=2007, batch="b", t=20.4, on=True)
    e.publish("the same", time=3001, batch="c", t=20.1, on=True)
    e.publish("a measurement fires: of the two before, no bound of a header", time=4000, batch="c", t=20.6, on=True)
    e.publish("a flag fires", time=5900, batch="c", t=20.6, on=False)
    e.publish("an absence fires", time=6000, batch="d", t=None, on=False)
    e.publish("out of range fires, again and again", time=7000, batch="d", t=50.1, on=False)
    e.publish(time=8000, batch="d", t=50.1, on=False)
    e.publish("silent", time=9500, batch="e", t=50.0, on=False)
    e.heartbeat(1.0)
    e.key_frames(5.0)
    e.publish(time=9900, batch="e", t=20.0, on=False)
    return e


@example
def switches() -> Example:
    e = Example(
        "switches", "SWITCH to every predictor, fine and in bins", [ROOM, temperature(period=4)],
        demand={"predictor": "last", "tolerance": {"t": 0.2}},
    )  # fmt: skip
    e.start()
    series = iter([20.0 + k % 4 + k // 3 / 10 for k in range(60)])

    def some(count: int = 5) -> None:
        for _ in range(count):
            e.publish(t=round(next(series), 1))

    some()
    for predictor, fine, slope in [("linear", 0, 256), ("trend", 0, -70), ("smooth", 0, 0), ("cadence", 0, 300)]:
        e.switch(predictor, fine, slope, note=predictor)
        some()
    e.publish("absent, and a switch while it is", t=None)
    e.switch(None, 16, note="last, fine")
    some()
    e.switch("seasonal", note="seasonal")
    some(9)
    e.switch("linear", 16, note="linear, fine")
    some()
    e.key_frames(5.0)
    some(3)
    return e


@example
def thinned() -> Example:
    e = Example(
        "thinned", "min_interval: no bound between", [Property("time", "timestamp", "header"), ROOM, temperature()],
        demand={"predictor": {"t": "last"}, "min_interval": 10},
    )  # fmt: skip
    e.start()
    for time, t in [(0, 20.0), (4, 21.0), (8, 22.0), (12, 23.0), (16, 24.0)]:
        e.publish(time=time, t=t)
    e.heartbeat(1.0)
    return e
