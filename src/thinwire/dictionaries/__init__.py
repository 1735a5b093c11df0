"""Dictionaries: shared bytes of a topic, the codecs that use them, training and policies."""

from thinwire.dictionaries.codecs import codec_of, register_codec
from thinwire.dictionaries.codecs.codec import Codec
from thinwire.dictionaries.dictionary import Dictionary, Facts
from thinwire.dictionaries.dictionary_transfer import PackedDictionary
from thinwire.dictionaries.training import choose, train, without_confidential

__all__ = [
    "Codec",
    "Dictionary",
    "Facts",
    "PackedDictionary",
    "choose",
    "codec_of",
    "register_codec",
    "train",
    "without_confidential",
]
