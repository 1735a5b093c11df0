"""One policy at work on a stream: what its publishers send, what its subscribers read, what its sampler does.

Policies by name, and the settings that the thesis tried of each.

>>> [policy for policy in POLICIES]
['deflate', 'single', 'fixed rate', 'adaptive', 'predict', 'ours', 'ours, length known']
>>> make("adaptive", Topology(1), None, {"gain": 3}).gain
3
>>> len(permutations("single")), len(permutations("single", quick=True)), permutations("predict")
(12, 5, [{}])

BR over time, in a bounded number of points.

A stream under a policy: one pass over the messages, one row a topology.

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
from thinwire.dictionaries.policies import CostBased, DictionaryPolicy, Keep, Prolong, Proposal, Replace
from thinwire.dictionaries.topology import Topology
from thinwire.errors import ConfigError, GuaranteeViolated
from thinwire.wire import varint
from thinwire_lab.reproduce.dictionaries.byte_account import TOPOLOGIES, Account
from thinwire_lab.reproduce.dictionaries.policies import Adaptive, FixedRate, Predict, SingleDict, fixed_rate, single

DECISIONS = 1000
"""decisions that are kept, the first"""


@dataclass
class Work:
    """CPU seconds by role."""

    publishers: float = 0.0
    subscribers: float = 0.0
    sampler: float = 0.0


@dataclass(frozen=True)
class Decision:
    """What a policy proposed, and after how many messages."""

    seen: int
    proposal: Prolong | Replace

    @property
    def document(self) -> dict[str, Any]:
        verb = type(self.proposal).__name__.lower()
        return {"seen": self.seen, "decision": verb, "life": self.proposal.life, **self.proposal.why}


@dataclass(eq=False)
class Lane:
    """A policy with its publishers and subscribers; None for messages that are deflated throughout."""

    policy: DictionaryPolicy | None
    account: Account = field(default_factory=Account)
    work: Work = field(default_factory=Work)
    decisions: list[Decision] = field(default_factory=list)
    dictionary: Dictionary | None = None
    codec: Codec = field(default_factory=Deflate)

    def send(self, messages: Sequence[bytes], plain: int) -> None:
        """Publish, read back, let the sampler look; `plain`: bytes of the messages without what joins a batch.

        A new dictionary is used from the next call on: it takes a moment to reach everybody.
        """
        codec = self.codec
        start = process_time()
        packed = [codec.pack(message) for message in messages]
        sent = process_time()
        read = [codec.unpack(one, len(message)) for one, message in zip(packed, messages, strict=True)]
        arrived = process_time()
        if read != messages:
            raise GuaranteeViolated("a packed message does not come back", codec=codec.name, seen=self.account.count)
        self.account.messages(len(messages), plain, sum(map(len, packed)))
        self.work.publishers += sent - start
        self.work.subscribers += arrived - sent
        if self.policy is not None:
            self._sample(self.policy, messages)

    def _sample(self, policy: DictionaryPolicy, messages: Sequence[bytes]) -> None:
        start = process_time()
        policy.offer_all(messages)
        proposal = policy.propose()
        self.work.sampler += process_time() - start
        self._follow(proposal)

    def _follow(self, proposal: Proposal) -> None:
        if isinstance(proposal, Keep):
            return
        if len(self.decisions) < DECISIONS:
            self.decisions.append(Decision(self.account.count, proposal))
        if isinstance(proposal, Replace):
            self._take(proposal.dictionary)

    def _take(self, dictionary: Dictionary | None) -> None:
        if dictionary is not None:
            self.account.dictionary(travelling.cost(dictionary, self.dictionary))
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
"""name -> from the topology, the length of the stream where it is known, and settings, to a policy"""

PUBLISHED = ("single", "fixed rate", "adaptive", "predict")
AWARE = ("predict", "ours", "ours, length known")
"""policies that know the topology: on another one they decide otherwise"""
TOLD = ("ours, length known",)
"""policies that are told how long the stream is"""

_GRIDS: dict[str, list[dict[str, Any]]] = {
    "single": [{"multiplier": multiplier} for multiplier in single.MULTIPLIERS],
    "fixed rate": [{"every": every} for every in fixed_rate.LIVES],
    "adaptive": [{"gain": gain} for gain in (1, 2, 3, 4, 5)],
}
_QUICK = {"single": (0, 2, 6, 8, 11), "fixed rate": (0, 1), "adaptive": (0, 2)}


def make(
    name: str, topology: Topology, expected: int | None = None, settings: Settings | None = None
) -> DictionaryPolicy | None:
    """The policy of this name; None for messages that are deflated throughout."""
    if name not in POLICIES:
        raise ConfigError("no such policy", policy=name, choose_from=list(POLICIES))
    return POLICIES[name](topology, expected, settings or {})


def permutations(name: str, quick: bool = False) -> list[dict[str, Any]]:
    """The settings to try; one that is empty where a policy needs none."""
    grid = _GRIDS.get(name, [{}])
    return [grid[place] for place in _QUICK[name]] if quick and name in _QUICK else grid


MOST = 200
"""points; when there are as many, every other one is dropped and half as many are taken from then on"""


class Timeline:
    """BR of everything so far, over the messages so far.

    >>> line, account = Timeline(), Account()
    >>> for _ in range(1000):
    ...     account.messages(1, plain=100, packed=39)
    ...     line.add(account.count, account, Topology())
    >>> len(line.points) <= MOST, line.points[-1]
    (True, [993, 60.0])
    """

    def __init__(self) -> None:
        self.points: list[list[float]] = []
        self._every = 1
        self._calls = 0

    def add(self, seen: int, account: Account, topology: Topology) -> None:
        """Look at the account; one look in so many is kept."""
        self._calls += 1
        if (self._calls - 1) % self._every:
            return
        self.points.append([seen, account.reduction(topology)])
        if len(self.points) == MOST:
            self.points = self.points[::2]
            self._every *= 2


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
