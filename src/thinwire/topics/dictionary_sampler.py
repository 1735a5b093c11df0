"""The dictionary sampler of one topic: it receives samples of messages and decides about the topic's dictionaries.

A policy decides in numbers of messages, publishers need times. A dictionary expires when its life in messages is over
at the current message rate, and its expiry is moved while the policy keeps it. With L the time until an announcement
has reached every publisher, and T the expiry:

    T - 2 L   to T - L   the policy keeps the dictionary and messages arrive: it is prolonged
    T - L     to T       no change: some publishers would continue to use it while others have stopped
    from T on            no publisher uses it; if messages arrive and it is still the best, it is renewed

No I/O and no clock. A decision takes effect when it is marked as `done`. Until then `decide` returns it again, so it
survives an outage of the store.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from thinwire.dictionaries import Dictionary, PackedDictionary
from thinwire.dictionaries.dictionary_transfer import pack
from thinwire.dictionaries.policies import CostBased, DictionaryPolicy, Keep, Prolong, Proposal, Reasons, Replace
from thinwire.dictionaries.topology import Topology
from thinwire.topics.dictionary_documents import (
    MAX_DECISIONS,
    MAX_REFERENCES,
    ActiveDictionaries,
    Decision,
    DictionaryReference,
    StoredDictionaries,
)
from thinwire.topics.dictionary_store import MAX_CHAIN

_BRIEF = 1.0
"""seconds; a shorter interval gives no message rate"""


@dataclass(frozen=True)
class Terms:
    """Limits of the lifetime of dictionaries, in seconds.

    latency: time until an announcement has reached every publisher (L)
    shortest, longest: limits of the time until an expiry

    >>> Terms().end(now=1000.0, life=100_000, rate=50.0), Terms().end(1000.0, None, 50.0), Terms().end(1000.0, 10, 50.0)
    (3000, 87400, 1600)
    """

    latency: float = 30.0
    shortest: float = 600.0
    longest: float = 86_400.0

    def end(self, now: float, life: int | None, rate: float) -> int:
        """Return the expiry of a dictionary with a life in messages, at a message rate (0: unknown)."""
        at_this_rate = life / rate if life is not None and rate else self.shortest
        seconds = self.longest if life is None else at_this_rate
        return math.ceil(now + min(max(seconds, self.shortest, 4 * self.latency), self.longest))


class Action(NamedTuple):
    """A decision to carry out: store a new dictionary, write both documents, announce `in_use`.

    packed: the packed dictionary; None if it is stored already
    """

    decision: Decision
    in_use: ActiveDictionaries
    kept: StoredDictionaries
    dictionary: Dictionary | None = None
    packed: PackedDictionary | None = None


class Sampler:
    """Decides about the dictionaries of one topic.

    policy: decides when to keep, prolong or replace
    in_use, kept: the stored documents
    present: the dictionary in use, if the store has it
    decisions: the last decisions, the newest last
    """

    def __init__(
        self,
        policy: DictionaryPolicy,
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
        self.decisions = list(decisions)[-MAX_DECISIONS:]
        self.seen = self._begun = self._announced = in_use.seen
        self.offset = in_use.offset
        self._first: float | None = None
        self._last = 0.0
        self._life: int | None = None
        self._wanted: Action | None = None
        if isinstance(policy, CostBased):
            policy.resume(self.seen, present)

    @property
    def message_rate(self) -> float:
        """Messages per second; 0 if it is not known yet."""
        elapsed = self._last - self._first if self._first is not None else 0.0
        return (self.seen - self._begun) / elapsed if elapsed >= _BRIEF else 0.0

    def offer(self, bodies: Sequence[bytes], offset: int, time: float) -> None:
        """Add the bodies of a message, with its offset and time."""
        if self._first is None:
            self._first = time
        self._last = max(self._last, time)
        self.offset = max(self.offset, offset)
        self.seen += len(bodies)
        if bodies:
            self.policy.offer_all(bodies)

    def reach(self, topology: Topology) -> None:
        """Set the current numbers of publishers and subscribers."""
        if isinstance(self.policy, CostBased):
            self.policy.topology = topology

    def decide(self, now: float) -> Action | None:
        """Return the pending decision, the same one until it is `done`; None for no change."""
        if self._wanted is None or self._is_stale(self._wanted, now):
            renewed = self._wanted is not None and self._wanted.dictionary is not None
            self._wanted = self._again(now) if renewed else self._lost(now) or self._proposed(now) or self._due(now)
        return self._wanted

    def done(self, action: Action) -> None:
        """Mark a decision as written and announced."""
        self.in_use, self.kept = action.in_use, action.kept
        if action.dictionary is not None or not self.in_use.dictionaries:
            self.present = action.dictionary
        self._announced = self.seen
        self._wanted = None
        self._note(action.decision)

    def clear(self, kept: StoredDictionaries) -> None:
        """Set the list of stored dictionaries after some were deleted."""
        self.kept = kept

    def _note(self, decision: Decision) -> None:
        self.decisions = [*self.decisions, decision][-MAX_DECISIONS:]

    @property
    def _active_reference(self) -> DictionaryReference | None:
        return self.in_use.dictionaries[0] if self.present is not None and self.in_use.dictionaries else None

    def _lost(self, now: float) -> Action | None:
        """Withdraw a dictionary that the store lost: new readers could not decode messages packed with it."""
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
        """Record a decision without a change, with its figures."""
        if proposal.why:
            self._note(Decision("keep", now, self.present.hash.hex() if self.present else "", why=proposal.why))

    def _due(self, now: float) -> Action | None:
        """Prolong the dictionary in use before its expiry, or renew it afterwards, while messages arrive."""
        reference = self._active_reference
        if reference is None or self.seen == self._announced:
            return None
        why: Reasons = {"seen": self.seen, "a second": self.message_rate}
        if now >= reference.expires:
            return self._dated("renew", reference, now, why)
        return self._prolonged(now, why) if now >= reference.expires - 2 * self.terms.latency else None

    def _prolonged(self, now: float, why: Reasons) -> Action | None:
        reference = self._active_reference
        if reference is None or now >= reference.expires - self.terms.latency or self._end(now) <= reference.expires:
            return None
        return self._dated("prolong", reference, now, why)

    def _dated(self, kind: str, reference: DictionaryReference, now: float, why: Reasons) -> Action:
        """The same dictionary with a new expiry."""
        return self._action(kind, now, replace(reference, expires=self._end(now)), why)

    def _replaced(self, proposal: Replace, now: float) -> Action | None:
        made, before = proposal.dictionary, self._active_reference
        if made is None:
            return self._action("withdraw", now, None, proposal.why) if before is not None else None
        if before is not None and made.hash.hex() == before.hash:
            return self._prolonged(now, proposal.why)
        stored = next((one for one in self.kept.dictionaries if one.hash == made.hash.hex()), None)
        if stored is None and len(self.kept.dictionaries) >= MAX_REFERENCES:
            self._kept(Keep({**proposal.why, "kept": len(self.kept.dictionaries), "limit": MAX_REFERENCES}), now)
            return None
        # A stored dictionary is not packed again: as a difference from a later one, each would need the other.
        packed = pack(made, self._parent) if stored is None else None
        parent = packed.parent.hex() if packed is not None else stored.parent if stored is not None else ""
        # Publishers use the dictionary with the latest expiry, so a new one must expire after the one before.
        expires = max(self._end(now), before.expires + 1 if before is not None else 0)
        return self._action(
            "replace", now, DictionaryReference(made.hash.hex(), expires, parent), proposal.why, made, packed
        )

    @property
    def _parent(self) -> Dictionary | None:
        """The parent of a new dictionary; None if the chain of parents would be too long."""
        if self.present is None or len(self.kept.lineage(self.present.hash.hex())) >= MAX_CHAIN:
            return None
        return self.present

    def _action(
        self,
        kind: str,
        now: float,
        reference: DictionaryReference | None,
        why: Reasons,
        dictionary: Dictionary | None = None,
        packed: PackedDictionary | None = None,
    ) -> Action:
        size = len(packed.body) if packed is not None else 0
        decision = Decision(
            kind, now, reference.hash if reference else "", reference.expires if reference else 0, size, why
        )
        in_use = replace(
            self.in_use,
            version=self.in_use.version + 1,
            dictionaries=(reference,) if reference else (),
            seen=self.seen,
            offset=self.offset,
        )
        return Action(
            decision, in_use, self.kept.with_reference(reference) if reference else self.kept, dictionary, packed
        )

    def _end(self, now: float) -> int:
        return self.terms.end(now, self._life, self.message_rate)

    def _is_stale(self, action: Action, now: float) -> bool:
        """Whether a pending decision has waited so long that its expiry is too near."""
        if action.decision.kind == "prolong":
            reference = self._active_reference
            return reference is None or now >= reference.expires - self.terms.latency
        return bool(action.decision.expires) and now >= action.decision.expires - 2 * self.terms.latency

    def _again(self, now: float) -> Action:
        """The pending decision with a new expiry."""
        before = self._wanted
        assert before is not None
        (reference,) = before.in_use.dictionaries
        reference = replace(reference, expires=max(self._end(now), reference.expires))
        return self._action(before.decision.kind, now, reference, before.decision.why or {}, *before[3:])
