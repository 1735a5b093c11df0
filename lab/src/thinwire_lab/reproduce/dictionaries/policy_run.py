"""One policy at work on a stream: what its publishers send, what its subscribers read, what its sampler does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any

from thinwire.dictionaries import dictionary_transfer as travelling
from thinwire.dictionaries.byte_account import Account
from thinwire.dictionaries.codecs import Codec, Deflate, codec_of
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.policies import Keep, Policy, Prolong, Proposal, Replace
from thinwire.errors import BrokenPromise

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

    policy: Policy | None
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
            raise BrokenPromise("a packed message does not come back", codec=codec.name, seen=self.account.count)
        self.account.messages(len(messages), plain, sum(map(len, packed)))
        self.work.publishers += sent - start
        self.work.subscribers += arrived - sent
        if self.policy is not None:
            self._sample(self.policy, messages)

    def _sample(self, policy: Policy, messages: Sequence[bytes]) -> None:
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
