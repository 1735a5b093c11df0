"""One topic's sampler: it is offered what travels, and says what is to be done about the dictionaries of the topic.

A policy decides in numbers of messages; publishers need times. A dictionary is said to expire when its life is over at
the pace of the messages, and is prolonged while the policy keeps it. Where L is the time in which word of a dictionary
reaches every publisher, and T its expiry:

    T - 2 L   to T - L   the policy keeps it and messages come: it is prolonged
    T - L     to T       too late for that: some would go on with it while others had stopped
    from T on            no publisher uses it; if messages still come and it is still the best there is, it is renewed

No I/O and no clock. What is decided counts once it is `done`; until then it is asked for again, and so survives a store
that cannot be reached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from thinwire.dictionaries import Dictionary, Travelling
from thinwire.dictionaries.byte_account import Topology
from thinwire.dictionaries.dictionary_transfer import pack
from thinwire.dictionaries.policies import CostBased, Keep, Policy, Prolong, Proposal, Replace, Why
from thinwire.topics.dictionary_documents import (
    DECISIONS,
    MAX_SAID,
    ActiveDictionaries,
    Decision,
    DictionaryReference,
    StoredDictionaries,
)
from thinwire.topics.dictionary_store import MAX_CHAIN

_BRIEF = 1.0
"""seconds; from less nothing follows for the pace of messages"""


@dataclass(frozen=True)
class Terms:
    """How long dictionaries are said to live, in seconds.

    latency: in which word of a dictionary reaches every publisher (L)
    shortest, longest: between now and an expiry

    >>> Terms().end(now=1000.0, life=100_000, pace=50.0), Terms().end(1000.0, None, 50.0), Terms().end(1000.0, 10, 50.0)
    (3000, 87400, 1600)
    """

    latency: float = 30.0
    shortest: float = 600.0
    longest: float = 86_400.0

    def end(self, now: float, life: int | None, pace: float) -> int:
        """When a dictionary expires that shall live for so many messages, at so many a second (0: not known)."""
        at_this_pace = life / pace if life is not None and pace else self.shortest
        seconds = self.longest if life is None else at_this_pace
        return math.ceil(now + min(max(seconds, self.shortest, 4 * self.latency), self.longest))


class Action(NamedTuple):
    """What is to be done: store the dictionary where there is a new one, write both documents, announce `in_use`.

    travelling: as it is stored; None where it is in the store already
    """

    decision: Decision
    in_use: ActiveDictionaries
    kept: StoredDictionaries
    dictionary: Dictionary | None = None
    travelling: Travelling | None = None


class Sampler:
    """What is known of one topic's dictionaries.

    policy: when to keep, prolong or replace
    in_use, kept: what is written of them
    present: the dictionary in use, where there is one and the store has it
    decisions: the last ones, the newest last
    """

    def __init__(
        self,
        policy: Policy,
        in_use: ActiveDictionaries,
        kept: StoredDictionaries,
        present: Dictionary | None = None,
        *,
        terms: Terms | None = None,
        decisions: Sequence[Decision] = (),
    ) -> None:
        self.policy = policy
        self.in_use = in_use
        self.kept = kept
        self.present = present
        self.terms = terms or Terms()
        self.decisions = list(decisions)[-DECISIONS:]
        self.seen = self._begun = self._told = in_use.seen
        self.offset = in_use.offset
        self._first: float | None = None
        self._last = 0.0
        self._life: int | None = None
        self._wanted: Action | None = None
        if isinstance(policy, CostBased):
            policy.resume(self.seen, present)

    @property
    def message_rate(self) -> float:
        """Messages a second; 0 where that is not known yet."""
        elapsed = self._last - self._first if self._first is not None else 0.0
        return (self.seen - self._begun) / elapsed if elapsed >= _BRIEF else 0.0

    def offer(self, bodies: Sequence[bytes], offset: int, time: float) -> None:
        """The bodies of a message, its place in the log, and when it was stored."""
        if self._first is None:
            self._first = time
        self._last = max(self._last, time)
        self.offset = max(self.offset, offset)
        self.seen += len(bodies)
        if bodies:
            self.policy.offer_all(bodies)

    def reach(self, topology: Topology) -> None:
        """How many publishers and subscribers the topic has now."""
        if isinstance(self.policy, CostBased):
            self.policy.topology = topology

    def decide(self, now: float) -> Action | None:
        """What is to be done, again and again until it is `done`; None for nothing."""
        if self._wanted is None or self._is_stale(self._wanted, now):
            renewed = self._wanted is not None and self._wanted.dictionary is not None
            self._wanted = self._again(now) if renewed else self._lost(now) or self._proposed(now) or self._due(now)
        return self._wanted

    def done(self, action: Action) -> None:
        """It has been done: everything is written, and announced."""
        self.in_use, self.kept = action.in_use, action.kept
        if action.dictionary is not None or not self.in_use.dictionaries:
            self.present = action.dictionary
        self._told = self.seen
        self._wanted = None
        self._note(action.decision)

    def clear(self, kept: StoredDictionaries) -> None:
        """Some of those kept are no longer in the store."""
        self.kept = kept

    def _note(self, decision: Decision) -> None:
        self.decisions = [*self.decisions, decision][-DECISIONS:]

    @property
    def _active_reference(self) -> DictionaryReference | None:
        """What is said of the dictionary in use."""
        return self.in_use.dictionaries[0] if self.present is not None and self.in_use.dictionaries else None

    def _lost(self, now: float) -> Action | None:
        """What the store cannot hand out must not be used: whoever has not got it could not read a thing."""
        if self.present is not None or not self.in_use.dictionaries:
            return None
        return self._action("withdraw", now, None, {"not in the store": self.in_use.dictionaries[0].hash})

    def _proposed(self, now: float) -> Action | None:
        proposal, action = self.policy.propose(), None
        if isinstance(proposal, Replace):
            self._life = proposal.life
            return self._replaced(proposal, now)
        if isinstance(proposal, Prolong):
            self._life = proposal.life
            action = self._prolonged(now, proposal.why)
        if action is None:
            self._kept(proposal, now)
        return action

    def _kept(self, proposal: Proposal, now: float) -> None:
        """A look that changed nothing is remembered with its numbers."""
        if proposal.why:
            self._note(Decision("keep", now, self.present.hash.hex() if self.present else "", why=proposal.why))

    def _due(self, now: float) -> Action | None:
        """Prolong what is in use before it expires, and renew it afterwards, as long as messages come."""
        said = self._active_reference
        if said is None or self.seen == self._told:
            return None
        why: Why = {"seen": self.seen, "a second": self.message_rate}
        if now >= said.expires:
            return self._dated("renew", said, now, why)
        return self._prolonged(now, why) if now >= said.expires - 2 * self.terms.latency else None

    def _prolonged(self, now: float, why: Why) -> Action | None:
        said = self._active_reference
        if said is None or now >= said.expires - self.terms.latency or self._end(now) <= said.expires:
            return None
        return self._dated("prolong", said, now, why)

    def _dated(self, kind: str, said: DictionaryReference, now: float, why: Why) -> Action:
        """The same dictionary with another expiry."""
        return self._action(kind, now, replace(said, expires=self._end(now)), why)

    def _replaced(self, proposal: Replace, now: float) -> Action | None:
        made, before = proposal.dictionary, self._active_reference
        if made is None:
            return self._action("withdraw", now, None, proposal.why) if before is not None else None
        if before is not None and made.hash.hex() == before.hash:
            return self._prolonged(now, proposal.why)
        stored = next((said for said in self.kept.dictionaries if said.hash == made.hash.hex()), None)
        if stored is None and len(self.kept.dictionaries) >= MAX_SAID:
            self._kept(Keep({**proposal.why, "kept": len(self.kept.dictionaries), "limit": MAX_SAID}), now)
            return None
        # one that comes again is there already: told as a change of a later one, each would need the other
        travelling = pack(made, self._parent) if stored is None else None
        parent = travelling.parent.hex() if travelling is not None else stored.parent if stored is not None else ""
        # the one whose expiry lies farthest ahead is used, so a new one must outlive the one before
        expires = max(self._end(now), before.expires + 1 if before is not None else 0)
        return self._action(
            "replace", now, DictionaryReference(made.hash.hex(), expires, parent), proposal.why, made, travelling
        )

    @property
    def _parent(self) -> Dictionary | None:
        """What a new one may be told as a change of: not where too many must be read for one already."""
        if self.present is None or len(self.kept.lineage(self.present.hash.hex())) >= MAX_CHAIN:
            return None
        return self.present

    def _action(
        self,
        kind: str,
        now: float,
        said: DictionaryReference | None,
        why: Why,
        dictionary: Dictionary | None = None,
        travelling: Travelling | None = None,
    ) -> Action:
        size = len(travelling.body) if travelling is not None else 0
        decision = Decision(kind, now, said.hash if said else "", said.expires if said else 0, size, why)
        in_use = replace(
            self.in_use,
            version=self.in_use.version + 1,
            dictionaries=(said,) if said else (),
            seen=self.seen,
            offset=self.offset,
        )
        return Action(decision, in_use, self.kept.with_reference(said) if said else self.kept, dictionary, travelling)

    def _end(self, now: float) -> int:
        return self.terms.end(now, self._life, self.message_rate)

    def _is_stale(self, action: Action, now: float) -> bool:
        """Was it put off for so long that its times are no longer good?"""
        if action.decision.kind == "prolong":
            said = self._active_reference
            return said is None or now >= said.expires - self.terms.latency
        return bool(action.decision.expires) and now >= action.decision.expires - 2 * self.terms.latency

    def _again(self, now: float) -> Action:
        """The same with times that are good now."""
        before = self._wanted
        assert before is not None
        (said,) = before.in_use.dictionaries
        said = replace(said, expires=max(self._end(now), said.expires))
        return self._action(before.decision.kind, now, said, before.decision.why or {}, *before[3:])
