"""The registry: topics, schemas, subscriptions and publishers, and the configurations derived from them."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.services.registry.rdf_projection import RdfProjection, query_registry
    from thinwire.services.registry.registry import load_registry
else:
    modules = {"rdf_projection": "RdfProjection query_registry", "registry": "load_registry"}
    __getattr__, __dir__ = contents(__name__, modules)

__all__ = ["RdfProjection", "load_registry", "query_registry"]
