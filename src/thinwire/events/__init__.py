"""Events, their properties and their schemas."""

from thinwire.events.event import Event
from thinwire.events.kinds import Kind, Role
from thinwire.events.properties import Property
from thinwire.events.schema import Schema

__all__ = ["Event", "Kind", "Property", "Role", "Schema"]
