"""Examples of every value encoding."""

from __future__ import annotations

from typing import Any

from vector_recording import ROOM, Example, example, temperature

from thinwire.schema import Property
from thinwire.wire import join


@example
def flags() -> Example:
    both = [Property("on", "boolean"), Property("open", "boolean")]
    e = Example("flags", "FLAG: changes, absence, return", [ROOM, *both])
    e.start("a key frame without sources")
    e.publish("introduction, and the first heartbeat", on=True, open=False)
    e.publish("one changes", on=False, open=False)
    e.publish("both change", on=True, open=True)
    e.publish("nothing changes: no frame", on=True, open=True)
    e.publish("absent, by exception; one event passed over", on=None, open=True)
    e.publish("back, by exception, while the other changes in its lane", on=True, open=False)
    return e


@example
def introductions() -> Example:
    e = Example(
        "introductions", "first events with values that the state cannot hold, or that are flagged",
        [ROOM, temperature(maximum=50), Property("n", "integer"), Property("f", "float"), Property("s", "string")],
    )  # fmt: skip
    e.start()
    e.publish(room="off the grid", t=20.04, n=2**62, f=0.1, s="a")
    e.publish(room="out of range", t=50.1, n=0, f=-0.0, s="ä")
    e.publish(room="absent", t=None, n=None, f=None, s=None)
    e.publish(room="absent", t=1.5, n=1, f=1.5, s="now")
    return e


@example
def floats() -> Example:
    both = [Property("f", "float"), Property("g", "float", minimum=-1e9)]
    e = Example("floats", "FLOAT: XOR of bit patterns", [ROOM, *both])
    e.start()
    for f, g in [(0.0, 1.0), (0.1, 1.0), (0.1, 1.5), (-1e300, 5e-324), (1e22, -2.5), (-0.0, -2.5)]:
        e.publish(f=f, g=g)
    e.publish("absent", f=None, g=-2.5)
    e.publish("back", f=1 / 3, g=2.0**-1022)
    e.publish("out of range: exact and flagged", f=1 / 3, g=-2e9)
    e.publish("again, always told", f=1 / 3, g=-2e9)
    return e


@example
def texts() -> Example:
    valve = Property("valve", "enum", members=["open", "shut"])
    e = Example("texts", "TEXT: members, a table, long texts, absence", [ROOM, valve, Property("error", "string")])
    e.start()
    long = "the pump of the second circuit does not answer; " * 3
    for v, error in [("open", ""), ("shut", ""), ("shut", "E1"), ("stuck", "E2"), ("open", "E1"), ("stuck", long)]:
        e.publish(valve=v, error=error)
    e.publish("a long text by its place", valve="stuck", error="E2")
    e.publish(valve="stuck", error=long)
    e.publish("too long for the table, deflated", valve="open", error="x" * 1025)
    e.publish(valve="open", error=None)
    e.publish("told exactly after an absence: not in the table", valve="open", error="E3 ü")
    e.publish(valve="open", error="E1")
    e.publish("told in full: now in the table", valve="open", error="E3 ü")
    e.key_frames(5.0, "tables begin anew")
    e.publish(valve="stuck", error="E1")
    return e


@example
def table_round() -> Example:
    e = Example("table_round", "TEXT: the 257th text takes the first one's place", [ROOM, Property("s", "string")])
    e.start()
    e.hand([join([f for k in range(259) for f in e.frames(s=f"{k}")])], "258 texts enter, the first introduces")
    for s in ("1", "4", "2", "1", "258"):
        e.publish(s=s)
    return e


@example
def many_properties() -> Example:
    numbers = [Property(f"n{k}", "integer") for k in range(20)]
    e = Example("many_properties", "masks in groups, also of exceptions", [ROOM, *numbers])
    e.start()
    values: dict[str, Any] = {f"n{k}": k for k in range(20)}
    e.publish(**values)
    for changed in ({"n0": 5}, {"n9": 1, "n19": 2}, {"n7": 0, "n8": 0, "n16": 0}, {"n3": None}, {"n3": 3, "n18": None}):
        values |= changed
        e.publish(**values)
    e.publish("all", **{name: k * k for k, name in enumerate(values)})
    return e


@example
def positions() -> Example:
    e = Example(
        "positions", "GEO", [ROOM, Property("at", "geo")], needs=["geo"],
        demand={"predictor": "last", "tolerance": {"at": 10}},
    )  # fmt: skip
    e.start()
    near, far = [[49.0, 8.4], [49.00002, 8.40002], [49.001, 8.4]], [[-33.9, 179.9999], [-33.9, -179.9999]]
    for at in [*near, *far, [0.123456789, 0.0]]:
        e.publish(at=at)
    e.publish(at=None)
    e.publish(at=[1.0, 2.0])
    e.key_frames(5.0)
    return e


@example
def arrays() -> Example:
    e = Example(
        "arrays", "ARRAY: patches, other lengths, off the grid", [ROOM, Property("scan", "array", step="0.5")],
        needs=["array"], demand={"predictor": "last", "tolerance": {"scan": 1}},
    )  # fmt: skip
    e.start()
    for scan in [[1.0, 2.0, 3.0], [1.5, 9.0, 0.0], [1.5, 2.0], [], [1.25, 2.0], [1.0, 3.5], None, [4.0, 4.0]]:
        e.publish(scan=scan)
    e.key_frames(5.0)
    return e


@example
def opaque() -> Example:
    e = Example("opaque", "OPAQUE: bytes and JSON", [ROOM, Property("o", "opaque")], needs=["opaque"])
    e.start()
    for o in [{"b": 1, "a": [True, None]}, b"\x01\x02", "text", {"b": 1, "a": [True, None]}, None, 3]:
        e.publish(o=o)
    return e


@example
def json_format() -> Example:
    e = Example(
        "json_format", "JSON frames",
        [ROOM, temperature(maximum=50), Property("on", "boolean"), Property("s", "string"), Property("o", "opaque")],
        needs=["json", "opaque"], format="json", demand={"predictor": "linear", "tolerance": {"t": 0.2}},
    )  # fmt: skip
    e.start()
    e.publish(t=20.0, on=True, s="a", o=1)
    e.publish("as expected: no frame", t=20.1, on=True, s="a", o=1)
    e.publish(t=21.0, on=False, s="ü", o={"k": [1, None]})
    e.publish(t=22.0, on=False, s="ü", o=1)
    e.publish(t=None, on=None, s=None, o=None)
    e.publish(t=60.0, on=True, s="", o=b"\x00\xff")
    e.publish(t=20.05, on=True, s="", o={"$bytes": "looks like bytes"})
    e.heartbeat(1.0)
    return e
