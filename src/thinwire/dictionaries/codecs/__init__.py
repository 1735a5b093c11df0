"""Codecs that pack single messages, with or without a dictionary."""

from __future__ import annotations

from thinwire.dictionaries.codecs.codec import Codec, codec_names, codec_of, register_codec
from thinwire.dictionaries.codecs.deflate import Deflate, PresetDeflate, TrimmedDeflate
from thinwire.dictionaries.codecs.zstd import TrimmedZstd, Zstd

__all__ = [
    "Codec",
    "Deflate",
    "PresetDeflate",
    "TrimmedDeflate",
    "TrimmedZstd",
    "Zstd",
    "codec_names",
    "codec_of",
    "register_codec",
]

register_codec("zstd", 0, lambda d: Zstd(d.content, d.level, d.largest))
register_codec("zlib", 1, lambda d: PresetDeflate(d.content, min(d.level, 9)))
register_codec("dense", 2, lambda d: TrimmedZstd(d.content, d.level, d.largest))
register_codec("brief", 3, lambda d: TrimmedDeflate(d.content, min(d.level, 9)))
