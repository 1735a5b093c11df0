"""The dictionary sampler of one topic: it collects samples for a dictionary policy and decides about the dictionaries.

A sample is the body of one frame. A policy states for how many samples a dictionary is used. Publishers need a time:
the expiry follows from that number and the current rate, and is postponed while the policy keeps the dictionary. With L
the time until an announcement has reached every publisher, and T the expiry:

    T - 2 L   to T - L   the policy keeps the dictionary and messages arrive: it is prolonged
    T - L     to T       no change: some publishers would continue to use it while others have stopped
    from T on            no publisher uses it; if messages arrive and it is still the best, it is renewed

No I/O and no clock. A decision takes effect when it is marked as written. Until then `decide` returns it again, so an
outage of the store does not lose it.
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

_MIN_RATE_SECONDS = 1.0
"""a shorter interval gives no message rate"""


@dataclass(frozen=True)
class DictionaryLifetimes:
    """Limits of the lifetime of dictionaries, in seconds.

    latency: time until an announcement has reached every publisher (L)
    shortest, longest: limits of the time until an expiry

    >>> lifetimes = DictionaryLifetimes()
    >>> [lifetimes.expiry(1000.0, life, rate=50.0) for life in (100_000, None, 10)]
    [3000, 87400, 1600]
    """

    latency: float = 30.0
    shortest: float = 600.0
    longest: float = 86_400.0

    def expiry(self, now: float, life: int | None, rate: float) -> int:
        """Return the expiry of a dictionary.

        life: samples that it is used for; None for no limit
        rate: samples per second; 0 if unknown
        """
        at_this_rate = life / rate if life is not None and rate else self.shortest
        seconds = self.longest if life is None else at_this_rate
        return math.ceil(now + min(max(seconds, self.shortest, 4 * self.latency), self.longest))


class DictionaryUpdate(NamedTuple):
    """A decision, and what must be written for it: a new dictionary, if any, and two documents; `active` is announced.

    packed: the packed dictionary; None if the store has it already
    """

    decision: Decision
    active: ActiveDictionaries
    stored: StoredDictionaries
    dictionary: Dictionary | None = None
    packed: PackedDictionary | None = None


class Sampler:
    """Decides about the dictionaries of one topic.

    policy: decides when to keep, prolong or replace
    active, stored: the documents as last written
    active_dictionary: the dictionary that `active` refers to; None if there is none or the store has lost it
    decisions: the last decisions, the newest last
    sample_count: number of samples so far, over all runs
    offset: log offset of the last sampled message
    """

    def __init__(
        self,
        policy: DictionaryPolicy,
        active: ActiveDictionaries,
        stored: StoredDictionaries,
        active_dictionary: Dictionary | None = None,
        *,
        lifetimes: DictionaryLifetimes | None = None,
        decisions: Sequence[Decision] = (),
    ) -> None:
        self.policy = policy
        self.active = active
        self.stored = stored
        self.active_dictionary = active_dictionary
        self.lifetimes = lifetimes or DictionaryLifetimes()
        self.decisions = list(decisions)[-MAX_DECISIONS:]
        self.sample_count = self._initial_count = self._announced_count = active.sample_count
        self.offset = active.offset
        self._first_time: float | None = None
        self._last_time = 0.0
        self._life: int | None = None
        self._pending: DictionaryUpdate | None = None
        if isinstance(policy, CostBased):
            policy.resume(self.sample_count, active_dictionary)

    @property
    def sample_rate(self) -> float:
        """Samples per second in this run; 0 if it is not known yet."""
        elapsed = self._last_time - self._first_time if self._first_time is not None else 0.0
        return (self.sample_count - self._initial_count) / elapsed if elapsed >= _MIN_RATE_SECONDS else 0.0

    def offer(self, bodies: Sequence[bytes], offset: int, time: float) -> None:
        """Add the bodies of a message, with its offset and time."""
        if self._first_time is None:
            self._first_time = time
        self._last_time = max(self._last_time, time)
        self.offset = max(self.offset, offset)
        self.sample_count += len(bodies)
        if bodies:
            self.policy.offer_all(bodies)

    def set_topology(self, topology: Topology) -> None:
        """Set the current numbers of publishers and subscribers."""
        if isinstance(self.policy, CostBased):
            self.policy.topology = topology

    def decide(self, now: float) -> DictionaryUpdate | None:
        """Return the pending update, the same one until it is marked as written; None for no change."""
        pending = self._pending
        if pending is None or self._is_stale(pending, now):
            if pending is not None and pending.dictionary is not None:
                self._pending = self._with_later_expiry(pending, now)
            else:
                self._pending = self._withdraw_lost(now) or self._follow_policy(now) or self._extend_if_due(now)
        return self._pending

    def mark_written(self, update: DictionaryUpdate) -> None:
        """Record that an update is written and announced."""
        self.active, self.stored = update.active, update.stored
        if update.dictionary is not None or not self.active.dictionaries:
            self.active_dictionary = update.dictionary
        self._announced_count = self.sample_count
        self._pending = None
        self._add_decision(update.decision)

    def _add_decision(self, decision: Decision) -> None:
        self.decisions = [*self.decisions, decision][-MAX_DECISIONS:]

    @property
    def _active_reference(self) -> DictionaryReference | None:
        has_dictionary = self.active_dictionary is not None and self.active.dictionaries
        return self.active.dictionaries[0] if has_dictionary else None

    def _withdraw_lost(self, now: float) -> DictionaryUpdate | None:
        """Withdraw a dictionary that the store lost: new readers could not decode messages packed with it."""
        if self.active_dictionary is not None or not self.active.dictionaries:
            return None
        return self._update("withdraw", now, None, {"not in the store": self.active.dictionaries[0].hash})

    def _follow_policy(self, now: float) -> DictionaryUpdate | None:
        proposal, update = self.policy.propose(), None
        if isinstance(proposal, Replace):
            self._life = proposal.life
            return self._replace(proposal, now)
        if isinstance(proposal, Prolong):
            self._life = proposal.life
            update = self._prolong(now, proposal.why)
        if update is None:
            self._add_keep(proposal, now)
        return update

    def _add_keep(self, proposal: Proposal, now: float) -> None:
        """Record a decision without a change, with its figures."""
        if proposal.why:
            hash = self.active_dictionary.hash.hex() if self.active_dictionary else ""
            self._add_decision(Decision("keep", now, hash, why=proposal.why))

    def _extend_if_due(self, now: float) -> DictionaryUpdate | None:
        """Prolong the active dictionary before its expiry, or renew it afterwards, while messages arrive."""
        reference = self._active_reference
        if reference is None or self.sample_count == self._announced_count:
            return None
        why: Reasons = {"seen": self.sample_count, "a second": self.sample_rate}
        if now >= reference.expires:
            return self._update("renew", now, replace(reference, expires=self._expiry(now)), why)
        return self._prolong(now, why) if now >= reference.expires - 2 * self.lifetimes.latency else None

    def _prolong(self, now: float, why: Reasons) -> DictionaryUpdate | None:
        reference, expires = self._active_reference, self._expiry(now)
        if reference is None or now >= reference.expires - self.lifetimes.latency or expires <= reference.expires:
            return None
        return self._update("prolong", now, replace(reference, expires=expires), why)

    def _replace(self, proposal: Replace, now: float) -> DictionaryUpdate | None:
        new, before = proposal.dictionary, self._active_reference
        if new is None:
            return self._update("withdraw", now, None, proposal.why) if before is not None else None
        hash = new.hash.hex()
        if before is not None and hash == before.hash:
            return self._prolong(now, proposal.why)
        known = next((reference for reference in self.stored.dictionaries if reference.hash == hash), None)
        if known is None and len(self.stored.dictionaries) >= MAX_REFERENCES:
            why = {**proposal.why, "kept": len(self.stored.dictionaries), "limit": MAX_REFERENCES}
            self._add_keep(Keep(why), now)
            return None
        # A stored dictionary is not packed again: as a difference from a later one, each would need the other.
        packed = pack(new, self._parent_of_new()) if known is None else None
        parent = packed.parent.hex() if packed is not None else known.parent if known is not None else ""
        # Publishers use the dictionary with the latest expiry, so a new one must expire after the one before.
        expires = max(self._expiry(now), before.expires + 1 if before is not None else 0)
        return self._update("replace", now, DictionaryReference(hash, expires, parent), proposal.why, new, packed)

    def _parent_of_new(self) -> Dictionary | None:
        """The parent of a new dictionary; None if the chain of parents would be too long."""
        parent = self.active_dictionary
        if parent is None or len(self.stored.lineage(parent.hash.hex())) >= MAX_CHAIN:
            return None
        return parent

    def _update(
        self,
        kind: str,
        now: float,
        reference: DictionaryReference | None,
        why: Reasons,
        dictionary: Dictionary | None = None,
        packed: PackedDictionary | None = None,
    ) -> DictionaryUpdate:
        """The update after which `reference` is the active dictionary."""
        size = len(packed.body) if packed is not None else 0
        hash, expires = (reference.hash, reference.expires) if reference else ("", 0)
        active = replace(
            self.active,
            version=self.active.version + 1,
            dictionaries=(reference,) if reference else (),
            sample_count=self.sample_count,
            offset=self.offset,
        )
        stored = self.stored.with_reference(reference) if reference else self.stored
        return DictionaryUpdate(Decision(kind, now, hash, expires, size, why), active, stored, dictionary, packed)

    def _expiry(self, now: float) -> int:
        return self.lifetimes.expiry(now, self._life, self.sample_rate)

    def _is_stale(self, update: DictionaryUpdate, now: float) -> bool:
        """Return True if a pending update has waited so long that its expiry is too near."""
        if update.decision.kind == "prolong":
            reference = self._active_reference
            return reference is None or now >= reference.expires - self.lifetimes.latency
        return bool(update.decision.expires) and now >= update.decision.expires - 2 * self.lifetimes.latency

    def _with_later_expiry(self, pending: DictionaryUpdate, now: float) -> DictionaryUpdate:
        (reference,) = pending.active.dictionaries
        reference = replace(reference, expires=max(self._expiry(now), reference.expires))
        decision = pending.decision
        return self._update(decision.kind, now, reference, decision.why or {}, pending.dictionary, pending.packed)
