"""Dictionaries: what both ends know of the bytes of a topic, and the codecs that use it."""

from thinwire.dictionaries.codecs import Codec, codec_of
from thinwire.dictionaries.dictionary import Dictionary, Facts
from thinwire.dictionaries.training import choose, train, without_confidential
from thinwire.dictionaries.travelling import Travelling

__all__ = ["Codec", "Dictionary", "Facts", "Travelling", "choose", "codec_of", "train", "without_confidential"]
