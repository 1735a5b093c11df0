"""Kinds that an application defines: registration, documents, Turtle and evolution."""

import pytest
from duration_kind import Duration, register_duration

from thinwire.errors import ConfigError, SchemaError
from thinwire.schema import (
    Kind,
    Property,
    Schema,
    changes,
    custom_kind,
    from_turtle,
    register_kind,
    to_turtle,
)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    register_duration(monkeypatch)


def rides(kind="duration", **fields):
    return Schema("rides", [Property("car", "string", "dimension"), Property("trip", kind, **fields)])


def test_a_property_has_the_base_and_the_step_of_its_kind():
    trip = rides()["trip"]
    assert (trip.kind, trip.custom_kind, str(trip.step)) == (Kind.NUMBER, "duration", "1/10")
    assert str(rides(step=5)["trip"].step) == "5"


def test_documents_and_turtle_can_be_read_without_the_kind(monkeypatch):
    document, turtle = rides().to_document(), to_turtle(rides())
    assert Schema.from_document(document) == from_turtle(turtle) == rides()
    here = rides()
    monkeypatch.setattr(custom_kind, "_REGISTERED", {})
    assert Schema.from_document(document) == from_turtle(turtle) == here
    with pytest.raises(SchemaError, match="unknown kind 'duration'"):
        rides()


def test_another_kind_over_the_same_base_is_another_property():
    plain = Schema("rides", list(rides("number", step="0.1")), 2)
    assert rides().fingerprint != rides("number", step="0.1").fingerprint
    assert [(change.what, change.breaking) for change in changes(rides(), plain)] == [("replaced", True)]


class Shadow(Duration):
    name = "number"


class Other(Duration):
    pass


class Spaced(Duration):
    name = "two words"


class Nested(Duration):
    name = "longer-duration"
    base = "duration"


@pytest.mark.parametrize("kind", [Shadow, Other, Spaced, Nested])
def test_registration_rejects_names_that_are_taken_or_invalid_and_other_bases(kind):
    with pytest.raises(ConfigError, match=kind.name):
        register_kind(kind)
    register_kind(Duration)


@pytest.mark.parametrize("given", [7, "two words", "x" * 65])
def test_a_document_with_an_invalid_custom_kind_is_rejected(given):
    with pytest.raises(SchemaError, match="custom_kind"):
        Property("trip", "number", step=1, custom_kind=given)


def test_an_installed_distribution_supplies_kinds_by_entry_point(tmp_path, monkeypatch):
    (tmp_path / "grade_kind.py").write_text(
        "from thinwire.schema import CustomKind, Kind, register_kind\n"
        "@register_kind\n"
        "class Grade(CustomKind):\n"
        "    name = 'grade'\n"
        "    base = Kind.INTEGER\n"
    )
    metadata = tmp_path / "grades-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: grades\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[thinwire.kinds]\ngrade = grade_kind\n")
    with pytest.raises(SchemaError, match="unknown kind"):
        Property("mark", "grade")
    monkeypatch.syspath_prepend(tmp_path)
    assert Property("mark", "grade").kind is Kind.INTEGER
