"""Encoder, decoder and dictionary store for tests of packed frames."""

from __future__ import annotations

from typing import Any

from thinwire.codec import Delivery, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.dictionaries import Dictionary
from thinwire.errors import UnknownDictionary
from thinwire.schema import Event, Property, Schema

LOGS = Schema(
    "machine.logs",
    [Property("host", "string", "dimension"), Property("line", "string"), Property("n", "integer")],
)
WORDS = b'GET POST /index.html /images/logo.png HTTP/1.1" 200 404 Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 '
DICTIONARIES = [
    Dictionary(WORDS, "zstd", level=3, largest=512),
    Dictionary(WORDS[::-1] + WORDS, "zlib", level=6, largest=512),
    Dictionary(b"nothing of the kind, or hardly " + WORDS[40:], "zstd", level=9, largest=2048),
]


def line(n: int) -> str:
    """Return a log line; all lines differ."""
    return f'{n} "GET /images/logo.png?{n * 7919 % 1000} HTTP/1.1" 200 Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101'


def entry(n: int, host: str = "a") -> dict[str, Any]:
    return {"host": host, "line": line(n), "n": n}


class Reader:
    """Decoder that fetches missing dictionaries from a store.

    store: the available dictionaries; requested: requested hashes; refused: hashes that were not available
    """

    def __init__(self, store: dict[bytes, Dictionary], schema: Schema = LOGS) -> None:
        self.store = store
        self.schema = schema
        self.requested: list[str] = []
        self.refused: list[str] = []
        self.out: list[Delivery] = []
        self._dictionaries: dict[bytes, Dictionary] = {}
        self.subscriber = self.fresh()

    def fresh(self) -> StreamDecoder:
        return StreamDecoder([self.schema], publisher="p", compiled=False, dictionaries=self._dictionaries.get)

    def hand(self, message: bytes, position: int | None = None) -> list[Delivery]:
        """Return the deliveries of a message after fetching what it needs."""
        while True:
            try:
                found = self.subscriber.receive(message, now=0.0, position=position)
            except UnknownDictionary as unknown:
                self._fetch(unknown)
                continue
            self.out += found
            return found

    def _fetch(self, unknown: UnknownDictionary) -> None:
        self.requested.append(unknown.hash)
        found = self.store.get(bytes.fromhex(unknown.hash))
        if found is None:
            self.refused.append(unknown.hash)
            self.subscriber.skip_pending_frame()
        else:
            self._dictionaries[found.hash] = found

    @property
    def events(self) -> list[Event]:
        return [thing for thing in self.out if isinstance(thing, Event)]


def publisher(
    schema: Schema = LOGS, incarnation: int = 1, sequence: int = 0, wide: bool = False, **config: Any
) -> StreamEncoder:
    given = StreamConfig(max_silence=1e9, key_frame_interval=1e9, **config)
    return StreamEncoder(schema, given, name="p", incarnation=incarnation, compiled=False, sequence=sequence, wide=wide)
