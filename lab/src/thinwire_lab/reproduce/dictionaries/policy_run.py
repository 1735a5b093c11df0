"""Runs of a dictionary policy on a stream: bytes and processor time of publishers, subscribers and sampler.

`POLICIES` are the policies by name; `permutations` returns the settings of the thesis for each.

>>> [policy for policy in POLICIES]
['deflate', 'single', 'fixed rate', 'adaptive', 'predict', 'ours', 'ours, length known']
>>> make("adaptive", Topology(1), None, {"gain": 3}).gain
3
>>> len(permutations("single")), len(permutations("single", quick=True)), permutations("predict")
(12, 5, [{}])

`run_stream` reads the messages once and returns one row per topology.

>>> rooms = (b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.5}' % (n % 9, n % 7, n % 31) for n in range(2000))
>>> rows = run_stream(rooms, "adaptive", [Topology(1), Topology(1000)])
>>> [(row["topology"], row["messages"], row["reduction"] > 40, row["dictionaries"]) for row in rows]
[('1:1', 2000, True, 1), ('1,000:1', 2000, False, 1)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from time import process_time
from typing import Any

from thinwire.dictionaries import dictionary_transfer as travelling
from thinwire.dictionaries.codecs import Codec, Deflate, codec_of
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.policies import CostBased, DictionaryPolicy, Keep, Proposal, Replace
from thinwire.dictionaries.topology import Topology
from thinwire.errors import ConfigError, GuaranteeViolated
from thinwire.wire import varint
from thinwire_lab.reproduce.dictionaries.byte_account import TOPOLOGIES, Account
from thinwire_lab.reproduce.dictionaries.policies import Adaptive, FixedRate, Predict, SingleDict, fixed_rate, single

ROLES = ("publishers", "subscribers", "sampler")
MAX_DECISIONS = 1000
"""stored decisions, from the start"""


@dataclass(eq=False)
class Lane:
    """A policy with its publishers and subscribers; without a policy all messages are deflated.

    cpu: processor seconds of publishers, subscribers and sampler
    decisions: the first proposals of the policy, each with the number of messages before it
    """

    policy: DictionaryPolicy | None
    account: Account = field(default_factory=Account)
    cpu: dict[str, float] = field(default_factory=lambda: dict.fromkeys(ROLES, 0.0))
    decisions: list[dict[str, Any]] = field(default_factory=list)
    dictionary: Dictionary | None = None
    codec: Codec = field(default_factory=Deflate)

    def send(self, messages: Sequence[bytes], plain: int) -> None:
        """Pack and unpack messages and run the sampler. A new dictionary is used from the next call.

        plain: bytes of the messages, without the lengths in a batch
        """
        codec = self.codec
        start = process_time()
        packed = [codec.pack(message) for message in messages]
        sent = process_time()
        unpacked = [codec.unpack(one, len(message)) for one, message in zip(packed, messages, strict=True)]
        arrived = process_time()
        if unpacked != messages:
            raise GuaranteeViolated(
                "unpacking does not return the packed message", codec=codec.name, seen=self.account.messages
            )
        self.account.add_messages(len(messages), plain, sum(map(len, packed)))
        self.cpu["publishers"] += sent - start
        self.cpu["subscribers"] += arrived - sent
        if self.policy is not None:
            self._sample(self.policy, messages)

    def _sample(self, policy: DictionaryPolicy, messages: Sequence[bytes]) -> None:
        start = process_time()
        policy.offer_all(messages)
        proposal = policy.propose()
        self.cpu["sampler"] += process_time() - start
        self._apply(proposal)

    def _apply(self, proposal: Proposal) -> None:
        if isinstance(proposal, Keep):
            return
        if len(self.decisions) < MAX_DECISIONS:
            about = {"seen": self.account.messages, "decision": type(proposal).__name__.lower()}
            self.decisions.append({**about, "life": proposal.life, **proposal.why})
        if isinstance(proposal, Replace):
            self._use(proposal.dictionary)

    def _use(self, dictionary: Dictionary | None) -> None:
        if dictionary is not None:
            self.account.add_dictionary(travelling.cost(dictionary, self.dictionary))
        self.dictionary = dictionary
        self.codec = Deflate() if dictionary is None else codec_of(dictionary)


Settings = Mapping[str, Any]
Make = Callable[[Topology, int | None, Settings], DictionaryPolicy | None]

POLICIES: dict[str, Make] = {
    "deflate": lambda topology, expected, settings: None,
    "single": lambda topology, expected, settings: SingleDict(**settings),
    "fixed rate": lambda topology, expected, settings: FixedRate(**settings),
    "adaptive": lambda topology, expected, settings: Adaptive(**settings),
    "predict": lambda topology, expected, settings: Predict(topology, **settings),
    "ours": lambda topology, expected, settings: CostBased(topology, **settings),
    "ours, length known": lambda topology, expected, settings: CostBased(topology, expected, **settings),
}
"""functions from the topology, the length of the stream if known, and settings to a policy, by name"""

PUBLISHED = ("single", "fixed rate", "adaptive", "predict")
AWARE = ("predict", "ours", "ours, length known")
"""policies whose decisions depend on the topology"""
WITH_LENGTH = ("ours, length known",)
"""policies that get the length of the stream"""

_GRIDS: dict[str, list[dict[str, Any]]] = {
    "single": [{"multiplier": multiplier} for multiplier in single.MULTIPLIERS],
    "fixed rate": [{"every": every} for every in fixed_rate.LIVES],
    "adaptive": [{"gain": gain} for gain in (1, 2, 3, 4, 5)],
}
_QUICK = {"single": (0, 2, 6, 8, 11), "fixed rate": (0, 1), "adaptive": (0, 2)}


def make(
    name: str, topology: Topology, expected: int | None = None, settings: Settings | None = None
) -> DictionaryPolicy | None:
    """Return the policy with this name; None for `deflate`."""
    if name not in POLICIES:
        raise ConfigError("unknown policy", policy=name, choose_from=list(POLICIES))
    return POLICIES[name](topology, expected, settings or {})


def permutations(name: str, quick: bool = False) -> list[dict[str, Any]]:
    """Return the settings to compare; one empty setting if a policy has none."""
    grid = _GRIDS.get(name, [{}])
    return [grid[place] for place in _QUICK[name]] if quick and name in _QUICK else grid


MAX_POINTS = 200
"""points; when they are full, every other one is dropped and the interval doubles"""


class Timeline:
    """Cumulative BR over the number of messages, in a bounded number of points.

    >>> line, account = Timeline(), Account()
    >>> for _ in range(1000):
    ...     account.add_messages(1, plain=100, packed=39)
    ...     line.add(account.messages, account, Topology())
    >>> len(line.points) <= MAX_POINTS, line.points[-1]
    (True, [993, 60.0])
    """

    def __init__(self) -> None:
        self.points: list[list[float]] = []
        self._every = 1
        self._calls = 0

    def add(self, seen: int, account: Account, topology: Topology) -> None:
        """Add a point of the account at the current interval."""
        self._calls += 1
        if (self._calls - 1) % self._every:
            return
        self.points.append([seen, account.reduction(topology)])
        if len(self.points) == MAX_POINTS:
            self.points = self.points[::2]
            self._every *= 2


ROUND = 16
"""messages between two calls of the sampler; a new dictionary is in use after at most as many"""

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
    """Return the costs of a stream under a policy, for each topology.

    batch: number of messages that are packed as one
    expected: length of the stream, for policies that use it
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
    """Return a lane for every topology; the same lane for all if the policy does not depend on it."""
    if policy in AWARE:
        return [Lane(make(policy, topology, expected, settings)) for topology in topologies]
    return [Lane(make(policy, Topology(), expected, settings))] * len(topologies)


def _joined(messages: Iterable[bytes], batch: int) -> Iterator[tuple[list[bytes], int, int]]:
    """Yield lists of batches with the bytes and the number of messages in them.

    The messages of a batch have their lengths in front, which count as packed bytes and not as plain ones.
    """
    stream = iter(messages)
    while taken := list(islice(stream, ROUND * batch)):
        plain, count = sum(map(len, taken)), len(taken)
        if batch > 1:
            parts = (taken[at : at + batch] for at in range(0, len(taken), batch))
            taken = [b"".join(map(varint.write_blob, part)) for part in parts]
        yield taken, plain, count


def _row(lane: Lane, topology: Topology, messages: int) -> Row:
    account = lane.account
    return {
        "topology": topology.name,
        "mean size": account.plain / max(messages, 1),
        "mean packed": account.packed / max(messages, 1),
        "reduction": account.reduction(topology),
        "dictionaries": account.dictionaries,
        "dictionary bytes": account.dictionary_bytes,
        **{f"cpu {role}": seconds for role, seconds in lane.cpu.items()},
        "decisions": lane.decisions,
    }
