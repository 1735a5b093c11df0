"""Dictionaries: what both ends know of the bytes of a topic, and the codecs that use it."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.dictionaries.codecs import codec_of
    from thinwire.dictionaries.codecs.codec import Codec
    from thinwire.dictionaries.dictionary import Dictionary, Facts
    from thinwire.dictionaries.dictionary_transfer import Travelling
    from thinwire.dictionaries.training import choose, train, without_confidential
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "codecs": "codec_of",
            "codecs.codec": "Codec",
            "dictionary": "Dictionary Facts",
            "dictionary_transfer": "Travelling",
            "training": "choose train without_confidential",
        },
    )

__all__ = [
    "Codec",
    "Dictionary",
    "Facts",
    "Travelling",
    "choose",
    "codec_of",
    "train",
    "without_confidential",
]
