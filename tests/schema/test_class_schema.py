"""Classes as schemas: the property of each annotation, and rejected classes."""

import enum
from dataclasses import InitVar, dataclass
from datetime import datetime
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Final, Literal, NewType, NotRequired, Optional, TypedDict

import pytest

from thinwire.errors import SchemaError
from thinwire.schema import Kind, Property, Role, Schema
from thinwire.schema.class_schema import (
    Array,
    Confidential,
    Dimension,
    Geo,
    Header,
    Meaning,
    Members,
    Number,
    Opaque,
    Timestamp,
    from_class,
)


class Mode(enum.Enum):
    OFF = 0
    HEATING = 1


class Colour(enum.StrEnum):
    RED = "red"
    GREEN = "green"


@dataclass
class Oil:
    level: Annotated[int, Number(minimum=0, maximum=100)]
    colour: Colour


class Engine(TypedDict):
    oil: Oil
    power: NotRequired[Annotated[float, Number(step="0.5", idle_band=2.5, unit="qudt:W", domain="qudt:Power")]]


def only(annotation: Any) -> Property:
    cls = type("One", (), {"__annotations__": {"p": annotation}})
    return from_class(cls)["p"]


def test_a_class_becomes_a_schema() -> None:
    @dataclass
    class Truck:
        limit: ClassVar[int] = 5
        seed: InitVar[int]
        time: Annotated[str, Timestamp(form="iso:T3Z"), Header()]
        truck: Annotated[str, Dimension]
        engine: Engine
        driver: Annotated[str | None, Confidential()] = None

    assert from_class(Truck, name="fleet", version=3) == Schema(
        "fleet",
        [
            Property("time", "timestamp", "header", form="iso:T3Z"),
            Property("truck", "string", "dimension"),
            Property("engine.oil.level", "integer", minimum=0, maximum=100),
            Property("engine.oil.colour", "enum", members=["red", "green"], closed=True),
            Property("engine.power", "number", step="0.5", idle_band=2.5, unit="qudt:W", domain="qudt:Power"),
            Property("driver", "string", confidential=True),
        ],
        version=3,
    )
    assert from_class(Truck).name == "Truck"


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (bool, Property("p", "boolean")),
        (int, Property("p", "integer")),
        (float, Property("p", "float")),
        (str, Property("p", "string")),
        (bytes, Property("p", "opaque")),
        (datetime, Property("p", "timestamp", form="datetime")),
        (Mode, Property("p", "enum", members=["OFF", "HEATING"], closed=True)),
        (Literal["on", "off"], Property("p", "enum", members=["on", "off"], closed=True)),
        (Optional[int], Property("p", "integer")),  # noqa: UP045 - both spellings must read
        (int | float | None, Property("p", "float")),
        (Final[int], Property("p", "integer")),
        (NewType("Celsius", float), Property("p", "float")),
        (Annotated[Any, Opaque()], Property("p", "opaque")),
        (Annotated[Oil, Opaque()], Property("p", "opaque")),
        (Annotated[dict[str, int] | None, Opaque()], Property("p", "opaque")),
        (Annotated[int, Timestamp(step=1)], Property("p", "timestamp", step=1)),
        (Annotated[datetime, Timestamp()], Property("p", "timestamp", form="datetime")),
        (Annotated[str, Members("a", "b")], Property("p", "enum", members=["a", "b"])),
        (Annotated[tuple[float, float], Geo(step="1e-5")], Property("p", "geo", step=Fraction(1, 100_000))),
        (Annotated[list[float], Array(360, step="0.01")], Property("p", "array", step="0.01", length=360)),
        (Annotated[bool, Meaning(domain="status")], Property("p", "boolean", domain="status")),
        (Annotated[int, Number(step=5)], Property("p", "number", step=5)),
        (Annotated[Annotated[float, "a note for others"], Number(period=24)], Property("p", "float", period=24)),
    ],
)
def test_an_annotation_becomes_a_property(annotation: Any, expected: Property) -> None:
    assert only(annotation) == expected


class Knot:
    inner: "Knot"


class Lost:
    there: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (complex, r"no kind.*Opaque\(\).*annotation='complex'"),
        (Any, "no kind"),
        (dict[str, int], "no kind"),
        (int | str, "no kind"),
        (Literal[1, 2], "no kind"),
        (Annotated[str, Number(step=1)], "Number annotates int, float"),
        (Annotated[float, Array(3, step=1)], "Array annotates"),
        (Annotated[str, Timestamp()], "needs its form"),
        (Annotated[float, Number(), Opaque()], "two hints decide the kind"),
        (Annotated[Oil, Dimension()], "hints belong on the fields"),
        (Annotated[float, Dimension()], "cannot identify a source"),
        (Knot, "cannot contain itself"),
        (Lost, "cannot be resolved"),
    ],
)
def test_invalid_classes_are_rejected(annotation: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        only(annotation)


def test_an_empty_class_is_rejected() -> None:
    with pytest.raises(SchemaError, match="no annotated fields"):
        from_class(type("Empty", (), {}))


def test_an_inherited_field_comes_first() -> None:
    class Base:
        sensor: Annotated[int, Dimension()]

    class Reading(Base):
        level: int

    schema = from_class(Reading)
    assert [(p.name, p.role, p.kind) for p in schema] == [
        ("sensor", Role.DIMENSION, Kind.INTEGER),
        ("level", Role.MEASUREMENT, Kind.INTEGER),
    ]
