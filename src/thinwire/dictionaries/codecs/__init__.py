"""Codecs: one message in, fewer bytes out, and back."""

from __future__ import annotations

from thinwire.dictionaries.codecs.codec import Codec
from thinwire.dictionaries.codecs.deflate import Brief, Deflate, Preset
from thinwire.dictionaries.codecs.zstd import Dense, Zstd
from thinwire.dictionaries.dictionary import Dictionary

__all__ = ["Brief", "Codec", "Deflate", "Dense", "Preset", "Zstd", "codec_of"]


def codec_of(dictionary: Dictionary) -> Codec:
    """The codec that reads and writes with this dictionary.

    It makes its machines when they are first needed and uses them again: keep it as long as the dictionary is in use
    (making one costs as much as a hundred messages), and do not share it between threads.
    """
    if dictionary.codec in ("zlib", "brief"):
        deflate = Preset if dictionary.codec == "zlib" else Brief
        return deflate(dictionary.content, min(dictionary.level, 9))
    zstd = Dense if dictionary.codec == "dense" else Zstd
    return zstd(dictionary.content, dictionary.level, dictionary.largest)
