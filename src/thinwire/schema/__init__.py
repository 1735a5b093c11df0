"""Events, their properties and their schemas: written by hand, as RDF, as a class, or found from samples."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.schema.class_schema import from_class
    from thinwire.schema.event import Event
    from thinwire.schema.event_paths import flatten, nest
    from thinwire.schema.evolution import Projection, compatible
    from thinwire.schema.evolution_differences import Change, changes
    from thinwire.schema.inference import Inference, explain, infer
    from thinwire.schema.property import Kind, Role
    from thinwire.schema.property_properties import Property
    from thinwire.schema.schema import Schema
    from thinwire.schema.schema_payloads import is_opaque, opaque
    from thinwire.schema.turtle import from_turtle, to_turtle
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "class_schema": "from_class",
            "event": "Event",
            "event_paths": "flatten nest",
            "evolution": "Projection compatible",
            "evolution_differences": "Change changes",
            "inference": "Inference explain infer",
            "property": "Kind Role",
            "property_properties": "Property",
            "schema": "Schema",
            "schema_payloads": "is_opaque opaque",
            "turtle": "from_turtle to_turtle",
        },
    )

__all__ = [
    "Change",
    "Event",
    "Inference",
    "Kind",
    "Projection",
    "Property",
    "Role",
    "Schema",
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
    "to_turtle",
]
