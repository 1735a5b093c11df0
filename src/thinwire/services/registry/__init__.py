"""The registry: topics, schemas, subscriptions and publishers, and the configurations derived from them."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.services.registry.rdf_projection import RdfProjection, query_registry
    from thinwire.services.registry.registry import Registry, Write, load_registry
    from thinwire.services.registry.registry_service import RegistryService
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "rdf_projection": "RdfProjection query_registry",
            "registry": "Registry Write load_registry",
            "registry_service": "RegistryService",
        },
    )

__all__ = [
    "RdfProjection",
    "Registry",
    "RegistryService",
    "Write",
    "load_registry",
    "query_registry",
]
