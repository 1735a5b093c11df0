"""Predicates on the values of an event: `where="price between 10 and 20 and region = 'EU'"`."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.filters.where.predicate import Where
    from thinwire.filters.where.predicate_index import PredicateIndex
    from thinwire.filters.where.where_grammar import parse
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "predicate": "Where",
            "predicate_index": "PredicateIndex",
            "where_grammar": "parse",
        },
    )

__all__ = [
    "PredicateIndex",
    "Where",
    "parse",
]
