"""Partials as body bytes: `compact` for machines, `plain` (JSON) for people."""

from thinwire.formats.lanes import Lane, lanes_of
from thinwire.formats.link_state import LinkState
from thinwire.formats.partial import Given, Partial

__all__ = ["Given", "Lane", "LinkState", "Partial", "lanes_of"]
