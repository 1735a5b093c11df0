"""Predicates on the values of an event: `where="price between 10 and 20 and region = 'EU'"`."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.filters.where.parser import parse
    from thinwire.filters.where.predicate_index_index import PredicateIndex
    from thinwire.filters.where.predicate_where import Where
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "parser": "parse",
            "predicate_index_index": "PredicateIndex",
            "predicate_where": "Where",
        },
    )

__all__ = [
    "PredicateIndex",
    "Where",
    "parse",
]
