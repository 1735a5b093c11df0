"""The registry: schemas, topics and subscriptions as documents, and what they come to for publishers."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.services.registry.rdf_projection import RdfProjection
    from thinwire.services.registry.registry_service import RegistryService
    from thinwire.services.registry.registry_state import Registry, Write
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "rdf_projection": "RdfProjection",
            "registry_service": "RegistryService",
            "registry_state": "Registry Write",
        },
    )

__all__ = [
    "RdfProjection",
    "Registry",
    "RegistryService",
    "Write",
]
