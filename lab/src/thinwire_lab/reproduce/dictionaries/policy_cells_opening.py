"""Streams by name, as long as they are wanted: what a cell of a sweep can open wherever it runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from thinwire.errors import ConfigError
from thinwire_lab.streams.named_streams_streams import Stream, generated, streams


def available(data: str | None) -> list[Stream]:
    """The streams of a folder, then the generated ones; only the latter without a folder."""
    own = streams(Path(data)) if data else []
    names = {stream.name for stream in own}
    return own + [stream for stream in generated() if stream.name not in names]


def find(name: str, data: str | None) -> Stream:
    """The stream of this name."""
    every = {stream.name: stream for stream in available(data)}
    if name not in every:
        raise ConfigError("no such stream", stream=name, choose_from=sorted(every))
    return every[name]


def messages_of(name: str, data: str | None, limit: int | None = None, cycle: bool = False) -> Iterator[bytes]:
    """The messages of a stream, at most `limit`; `cycle` begins anew where they end before.

    >>> len(list(messages_of("building-json", None, 5)))
    5
    """
    stream = find(name, data)
    return islice(_cycled(stream), limit) if cycle and limit is not None else stream.messages(limit)


def _cycled(stream: Stream) -> Iterator[bytes]:
    while True:
        empty = True
        for message in stream.messages():
            empty = False
            yield message
        if empty:
            return
