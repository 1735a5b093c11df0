"""What must be known to read a topic's log, taken from the broker's buckets."""

from __future__ import annotations

from collections.abc import Collection

from thinwire.brokers.protocol_broker import Broker, Bucket
from thinwire.brokers.recording import RecordingWriter
from thinwire.errors import Conflict
from thinwire.topics import topic_settings as keys
from thinwire.topics.checkpoint_store import index_key, read_index
from thinwire.topics.dictionary_store_store import MAX_CHAIN, parent_in
from thinwire.topics.names import CHECKPOINTS, DICTIONARIES, FACTS, REGISTRY
from thinwire.topics.topic_settings import config_key, topic_key

ATTEMPTS = 5
"""how often checkpoints are read again because somebody changed them meanwhile"""


async def put_documents(broker: Broker, out: RecordingWriter, topic: str) -> None:
    """Record the schemas, the settings and the facts of a topic, as they are now."""
    registry = await broker.bucket(REGISTRY)
    for pattern in (f"{keys.SCHEMA}.{topic}.*", topic_key(topic), config_key(topic)):
        await _put_all(out, REGISTRY, registry, pattern)
    await _put_all(out, FACTS, await broker.bucket(FACTS), f"{topic}.*")


async def put_dictionaries(broker: Broker, out: RecordingWriter, hashes: Collection[bytes]) -> list[bytes]:
    """Record dictionaries, each with all its pieces, and those that they are told as changes of; the ones that the
    broker has."""
    found: list[bytes] = []
    bucket = await broker.bucket(DICTIONARIES) if hashes else None
    for hash in hashes:
        assert bucket is not None
        if await _put_line(out, bucket, hash):
            found.append(hash)
    return found


async def _put_line(out: RecordingWriter, bucket: Bucket, hash: bytes) -> int:
    """Record a dictionary, the one it is a change of, and so on; how many there were."""
    for number in range(MAX_CHAIN):
        entry = await bucket.get(hash.hex()) if hash else None
        if entry is None or entry.value is None:
            return number
        out.put_document(DICTIONARIES, entry.key, entry.value)
        await _put_all(out, DICTIONARIES, bucket, f"{hash.hex()}.*")
        hash = parent_in(entry.value)
    return MAX_CHAIN


async def put_checkpoints(broker: Broker, out: RecordingWriter, topic: str) -> None:
    """Record the checkpoints of a topic.

    The index comes last, when all it tells of is there: while pieces are read, others may throw old ones away.
    """
    bucket = await broker.bucket(CHECKPOINTS)
    for _ in range(ATTEMPTS):
        entry = await bucket.get(index_key(topic))
        if entry is None or entry.value is None:
            return
        complete = [one for one in read_index(topic, entry.value) if one.complete]
        pieces = [key for one in complete for part in one.parts.values() for key in one.keys(part)]
        if all([await _put_one(out, CHECKPOINTS, bucket, key) for key in pieces]):
            out.put_document(CHECKPOINTS, entry.key, entry.value)
            return
    raise Conflict("others keep changing the checkpoints", topic=topic, attempts=ATTEMPTS)


async def _put_all(out: RecordingWriter, name: str, bucket: Bucket, pattern: str) -> None:
    for entry in await bucket.entries(pattern):
        if entry.value is not None:
            out.put_document(name, entry.key, entry.value)


async def _put_one(out: RecordingWriter, name: str, bucket: Bucket, key: str) -> bool:
    entry = await bucket.get(key)
    if entry is None or entry.value is None:
        return False
    out.put_document(name, key, entry.value)
    return True
