"""The words in which a schema is written as RDF: schema.org types, QUDT units, WGS84 positions and our own terms.

Fields hold short names, documents hold IRIs. What has no IRI stays a literal, so every text comes back as it was.

>>> UNITS.term("qudt:DEG_C"), UNITS.term("µg/m³")
(<NamedNode value=http://qudt.org/vocab/unit/DEG_C>, <Literal value=µg/m³ ...>)
>>> DOMAINS.text(DOMAINS.term("wgs84:lat_long"))
'wgs84:lat_long'
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyoxigraph import Literal, NamedNode

from thinwire.schema.property import Kind

TW = "https://thinwire.dev/ns#"
SO = "https://schema.org/"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
UNIT = "http://qudt.org/vocab/unit/"
QUANTITY = "http://qudt.org/vocab/quantitykind/"
WGS84 = "http://www.w3.org/2003/01/geo/wgs84_pos#"

PREFIXES = {"tw": TW, "so": SO, "unit": UNIT, "quantitykind": QUANTITY, "wgs84": WGS84}
"""prefixes that `to_turtle` declares"""

RUNTIME_TYPES = {
    Kind.BOOLEAN: f"{SO}Boolean",
    Kind.INTEGER: f"{SO}Integer",
    Kind.NUMBER: f"{SO}Number",
    Kind.FLOAT: f"{SO}Float",
    Kind.ENUM: f"{SO}Enumeration",
    Kind.STRING: f"{SO}Text",
    Kind.TIMESTAMP: f"{SO}DateTime",
    Kind.GEO: f"{SO}GeoCoordinates",
    Kind.ARRAY: f"{TW}NumberArray",
    Kind.OPAQUE: f"{TW}Opaque",
}

_LOCAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_INSECURE_SO = "http://schema.org/"


class Names:
    """Short names of one field and the IRIs they stand for.

    spaces: the namespace behind each prefix; the prefix "" is that of bare names
    also: further namespaces that are read as a prefix, but never written
    """

    def __init__(self, spaces: Mapping[str, str], also: Mapping[str, str]) -> None:
        self.spaces = spaces
        self.also = also
        self._prefixes = {**also, **{space: prefix for prefix, space in spaces.items()}}

    def term(self, text: str) -> NamedNode | Literal:
        """The IRI of a short name or of an IRI; a literal where the text is neither."""
        prefix, _, local = text.rpartition(":")
        if prefix in self.spaces and _LOCAL.fullmatch(local) and self._name(prefix, local) == text:
            return NamedNode(self.spaces[prefix] + local)
        try:
            node = NamedNode(text)
        except ValueError:
            return Literal(text)
        return node if self.text(node) == text else Literal(text)

    def text(self, term: NamedNode | Literal) -> str:
        """The short name of an IRI in one of our namespaces; any other term as it is written."""
        if isinstance(term, NamedNode):
            space, local = split(term.value)
            if space in self._prefixes and _LOCAL.fullmatch(local):
                return self._name(self._prefixes[space], local)
        return term.value

    @staticmethod
    def _name(prefix: str, local: str) -> str:
        return f"{prefix}:{local}" if prefix else local


def split(iri: str) -> tuple[str, str]:
    """An IRI as namespace and local name."""
    cut = max(iri.rfind("#"), iri.rfind("/")) + 1
    return iri[:cut], iri[cut:]


def readable(iri: str) -> str:
    """An IRI as Turtle and our messages write it: with a prefix where we have one."""
    space, local = split(iri)
    prefix = next((prefix for prefix, known in PREFIXES.items() if known == space), None)
    return f"{prefix}:{local}" if prefix and _LOCAL.fullmatch(local) else f"<{iri}>"


def secure(iri: str) -> str:
    """schema.org is written with http as often as with https: one and the same vocabulary."""
    return SO + iri.removeprefix(_INSECURE_SO) if iri.startswith(_INSECURE_SO) else iri


UNITS = Names(
    {"qudt": UNIT},
    also={"http://qudt.org/vocab/unit#": "qudt", "http://qudt.org/schema/qudt/": "qudt"},
)
DOMAINS = Names(
    {"": TW, "qudt": QUANTITY, "wgs84": WGS84, "so": SO},
    also={"http://qudt.org/schema/qudt/": "qudt", _INSECURE_SO: "so"},
)
