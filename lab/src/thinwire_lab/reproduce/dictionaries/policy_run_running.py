"""A stream under a policy: one pass over the messages, one row a topology.

>>> rooms = (b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.5}' % (n % 9, n % 7, n % 31) for n in range(2000))
>>> rows = run_stream(rooms, "adaptive", [Topology(1), Topology(1000)])
>>> [(row["topology"], row["messages"], row["reduction"] > 40, row["dictionaries"]) for row in rows]
[('1:1', 2000, True, 1), ('1,000:1', 2000, False, 1)]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from thinwire.dictionaries.byte_account import TOPOLOGIES, Topology
from thinwire.wire import varint
from thinwire_lab.reproduce.dictionaries.policy_run import Lane
from thinwire_lab.reproduce.dictionaries.policy_run_policies import AWARE, Settings, make
from thinwire_lab.reproduce.dictionaries.policy_run_timeline import Timeline

TOGETHER = 16
"""messages that are sent before the sampler is asked; a new dictionary reaches everybody after as many at most"""

Row = dict[str, Any]


def run_stream(
    messages: Iterable[bytes],
    policy: str,
    topologies: Sequence[Topology] = TOPOLOGIES,
    batch: int = 1,
    *,
    settings: Settings | None = None,
    expected: int | None = None,
) -> list[Row]:
    """Everything that a stream costs under a policy, on each topology; messages are taken as they come.

    batch: messages that are packed as one
    expected: how many messages there will be, for policies that are told
    """
    lanes = _lanes(policy, topologies, settings, expected)
    lines = [Timeline() for _ in topologies]
    seen = 0
    for together, plain, count in _joined(messages, batch):
        seen += count
        for lane in dict.fromkeys(lanes):
            lane.send(together, plain)
        for lane, line, topology in zip(lanes, lines, topologies, strict=True):
            line.add(seen, lane.account, topology)
    about = {"policy": policy, "settings": dict(settings or {}), "batch": batch, "messages": seen}
    return [
        {**about, **_row(lane, topology, seen), "timeline": line.points}
        for lane, line, topology in zip(lanes, lines, topologies, strict=True)
    ]


def _lanes(policy: str, topologies: Sequence[Topology], settings: Settings | None, expected: int | None) -> list[Lane]:
    """A lane for every topology; one for all of them where the policy does not know the topology."""
    if policy in AWARE:
        return [Lane(make(policy, topology, expected, settings)) for topology in topologies]
    return [Lane(make(policy, Topology(), expected, settings))] * len(topologies)


def _joined(messages: Iterable[bytes], batch: int) -> Iterator[tuple[list[bytes], int, int]]:
    """What is packed at once, several at a time; the bytes of the messages in them, and how many these are.

    The messages of a batch are told apart by their lengths, which count as packed bytes and not as plain ones.
    """
    stream = iter(messages)
    while taken := list(islice(stream, TOGETHER * batch)):
        plain, count = sum(map(len, taken)), len(taken)
        if batch > 1:
            parts = (taken[at : at + batch] for at in range(0, len(taken), batch))
            taken = [b"".join(map(varint.write_blob, part)) for part in parts]
        yield taken, plain, count


def _row(lane: Lane, topology: Topology, messages: int) -> Row:
    account, work = lane.account, lane.work
    return {
        "topology": topology.name,
        "mean size": account.plain / max(messages, 1),
        "mean packed": account.packed / max(messages, 1),
        "reduction": account.reduction(topology),
        "dictionaries": account.dictionaries,
        "dictionary bytes": account.dictionary_bytes,
        "cpu publishers": work.publishers,
        "cpu subscribers": work.subscribers,
        "cpu sampler": work.sampler,
        "decisions": [decision.document for decision in lane.decisions],
    }
