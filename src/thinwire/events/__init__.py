"""Events, their properties and their schemas: written by hand, as RDF, as a class, or found from samples."""

from thinwire.events.classes import from_class
from thinwire.events.event import Event
from thinwire.events.evolution import Change, Projection, changes, compatible
from thinwire.events.inference import Inference, explain, infer
from thinwire.events.kinds import Kind, Role
from thinwire.events.paths import flatten, nest
from thinwire.events.payloads import is_opaque, opaque
from thinwire.events.properties import Property
from thinwire.events.schema import Schema
from thinwire.events.turtle import from_turtle, to_turtle

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
