"""Events and schemas. A schema is written in Python, in Turtle or as a class, or inferred from samples."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.schema.class_schema import from_class
    from thinwire.schema.custom_kind import CustomKind, register_kind
    from thinwire.schema.event import Event, flatten, nest
    from thinwire.schema.evolution import SchemaChange, SchemaProjection, changes, compatible
    from thinwire.schema.inference import Inference, explain, infer
    from thinwire.schema.kind import Kind
    from thinwire.schema.property import Property, Role
    from thinwire.schema.schema import Schema, is_opaque, opaque
    from thinwire.schema.turtle import from_turtle, to_turtle
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "class_schema": "from_class",
            "custom_kind": "CustomKind register_kind",
            "event": "Event flatten nest",
            "evolution": "SchemaChange SchemaProjection changes compatible",
            "inference": "Inference explain infer",
            "kind": "Kind",
            "property": "Property Role",
            "schema": "Schema is_opaque opaque",
            "turtle": "from_turtle to_turtle",
        },
    )

__all__ = [
    "CustomKind",
    "Event",
    "Inference",
    "Kind",
    "Property",
    "Role",
    "Schema",
    "SchemaChange",
    "SchemaProjection",
    "changes",
    "compatible",
    "explain",
    "flatten",
    "from_class",
    "from_turtle",
    "infer",
    "is_opaque",
    "nest",
    "opaque",
    "register_kind",
    "to_turtle",
]
