"""Predicates on the values of an event: `where="price between 10 and 20 and region = 'EU'"`."""

from thinwire.matching.where.index import PredicateIndex
from thinwire.matching.where.parsing import parse
from thinwire.matching.where.where import Where

__all__ = ["PredicateIndex", "Where", "parse"]
