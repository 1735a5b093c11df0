"""The cost-based policy: a dictionary is replaced if that is expected to save more bytes than it costs.

    saving    bytes per message that a new dictionary saves, times the copies of a message that are sent, times the
              messages for which it is expected to live
    cost      bytes of the dictionary when sent (packed, delta-coded against the previous one), to every receiver

A life ends with the stream (if its length is known; at most ten times the messages seen are expected) or when the
dictionary has decayed. For a stream of unknown length the probability that it outlives its n messages by x is
n / (n + x). With at most six further n, it is expected to continue for n ln 7, about 2 n. So a dictionary is sent only
after its saving on the messages seen would have paid for half of it, and a stream that is too short for any dictionary
costs as much as with deflate. Sizes are compared over the messages that every publisher may be expected to send, and
one that pays is postponed for a better one that pays before the stream has doubled. A replacement has less to gain and
can wait: it is credited with n / 2.

Decay is measured on the messages. A dictionary that loses d bytes per message with every message is best replaced every
sqrt(2 cost / (d copies)) messages, when half of its present loss over such a life equals the cost of a new one. The
next dictionary is like the one that cost least in total (`Epochs`).

The form is part of the choice: zlib with the content alone for short messages, zstd with tables for much text, at a
level within the CPU budget. If no dictionary pays, messages are deflated.

The policy samples few messages: all at first, then a constant number in every doubling of the stream, a quarter of
them while no decay shows, and at least one in `STRIDE`. It trains when a size that did not pay before would pay now,
when the stream has grown fourfold, and when the dictionary has decayed. Sizes are compared by sketches; only the
proposed dictionary is built from all messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from thinwire.dictionaries.codecs import Codec, codec_of
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.policies.candidate_trial import (
    FORMS,
    GROWING,
    LEAST,
    NEAR,
    REPLACING,
    SEARCHING,
    CandidateTrial,
    TrialOutcome,
    climb,
    fitting,
    sent_size,
)
from thinwire.dictionaries.policies.lifetime_estimate import Decay, DictionaryKind, Epochs, Form, StreamForecast
from thinwire.dictionaries.policies.policy import (
    DEFLATE,
    KEEP,
    SLOT,
    History,
    Keep,
    Prolong,
    Proposal,
    Reasons,
    Replace,
    StreamProgress,
)
from thinwire.dictionaries.topology import ONE_TO_ONE, Topology
from thinwire.dictionaries.training import COSTS, SEGMENTS, USUAL_SEGMENT

SAMPLE, SAMPLE_BYTES = 2000, 1 << 19
FIRST = 64
"""messages before the first comparison; of a stream of known length a thousandth, at most a thousand"""
FEWEST = 16
"""messages for training, at least"""
START = 2048
"""bytes; the size that is tried first"""
WAIT, AGAIN, GROWN = 1.25, 2, 4
"""growth of the stream between two comparisons: without a dictionary, at least; with one, at least; and at most"""
LEARNING = 200
"""1 / share of a stream of known length during which a better sample is waited for"""
GATHERED = 800
"""consecutive messages for the replacement of a decayed dictionary, which was trained on the older ones"""
CHECKED, COMPARED = 16, 32
"""sampled messages between two checks for decay, and between two comparisons with deflate"""
CALM = 4
"""one sampled message in `CALM` is packed while no decay shows"""
_ALL_SEGMENTS = tuple(dict.fromkeys((USUAL_SEGMENT, *SEGMENTS)))
LIKE_DEFLATE = 1.0
"""CPU budget equal to that of messages without a dictionary"""


class CostBased:
    """Replaces a dictionary if the expected saving exceeds the cost.

    topology: numbers of publishers and subscribers
    expected: total number of messages of the stream, if known
    budget: CPU time to pack a message as a multiple of deflate's (see `choose`)

    >>> policy = CostBased(Topology(1))
    >>> for n in range(100):
    ...     policy.offer(b'{"room": "11.%d", "temperature": %d.5}' % (n % 7, n % 31))
    >>> proposal = policy.propose()
    >>> type(proposal).__name__, proposal.why["saving"] > proposal.why["cost"]
    ('Replace', True)
    """

    name = "ours"

    def __init__(
        self,
        topology: Topology = ONE_TO_ONE,
        expected: int | None = None,
        budget: float = LIKE_DEFLATE,
    ) -> None:
        self.topology = topology
        self.expected = expected
        self.budget = budget
        self._history = History(SAMPLE, SAMPLE_BYTES)
        self._progress = StreamProgress()
        self._next_comparison: float = FIRST if expected is None else min(max(expected // 1000, FIRST), 1000)
        self._due = False
        self._dictionary: Dictionary | None = None
        self._codec: Codec = DEFLATE
        self._born = 0
        self._cost = inf
        self._decay = Decay()
        self._epochs = Epochs()
        self._checked_from = 0
        self._sampled = 0
        self._size, self._segment = START, USUAL_SEGMENT  # the best ones so far
        self._requested_size = START  # of the dictionary in use

    def offer(self, message: bytes) -> None:
        self.offer_all((message,))

    def offer_all(self, messages: Sequence[bytes]) -> None:
        progress = self._progress
        before, end = progress.seen, progress.seen + len(messages)
        while progress.next <= end:
            progress.seen = progress.next
            self._sample(messages[progress.seen - before - 1])
        progress.seen = end

    def resume(self, seen: int, dictionary: Dictionary | None) -> None:
        """Continue after another policy that had seen `seen` messages and sent `dictionary`."""
        if not seen:
            return
        self._progress.seen, self._progress.next = seen, seen + 1
        if dictionary is None:
            self._use(None, inf)
            self._next_comparison, self._progress.gathering = seen, GATHERED
        else:
            self._use(dictionary, sent_size(dictionary, None) * self.topology.receivers)
            self._next_comparison = GROWN * seen

    def propose(self) -> Proposal:
        if not self._due:
            return KEEP
        self._due = False
        return self._compare()

    def _sample(self, message: bytes) -> None:
        self._history.add(message)
        gathering = self._progress.gathering
        self._progress.advance()
        if gathering:
            self._due = not self._progress.gathering
            return
        self._sampled += 1
        if self._dictionary is not None and not (self._progress.calm and self._sampled % CALM):
            self._observe(message)
        if self._progress.seen >= self._next_comparison:
            self._due = True

    def _observe(self, message: bytes) -> None:
        decay = self._decay
        size = len(self._codec.pack(message))
        decay.observe(len(message), size + SLOT)
        self._epochs.observe(len(message), size + SLOT)
        self._progress.calm = decay.calm
        if not decay.observed % COMPARED:
            decay.compare(size, len(DEFLATE.pack(message)))
        if not decay.observed % CHECKED and self._progress.seen >= self._checked_from:
            decayed = decay.worse or self._forecast.has_decayed(decay, self._life(), self._cost)
            self._progress.gathering = GATHERED if decayed else 0

    def _life(self) -> float:
        """Return the messages for which a new dictionary is expected to live."""
        seen, lost, first = self._progress.seen, self._decay.lost, self._dictionary is None
        return self._forecast.life(seen, first=first, lost=lost, age=seen - self._born, cost=self._cost)

    @property
    def _forecast(self) -> StreamForecast:
        return StreamForecast(self.topology, self.expected)  # the topology may change at any time

    def _compare(self) -> Proposal:
        decayed, self._progress.gathering = self._progress.seen < self._next_comparison, 0
        messages = self._history.last(GATHERED if decayed else SAMPLE)
        if len(messages) < FEWEST:
            self._back_off(inf)
            return KEEP
        life = self._life()
        if decayed and self._dictionary is not None:
            kind = DictionaryKind(self._requested_size, (self._dictionary.codec, self._dictionary.level))
            self._epochs.end(kind, self._progress.seen - self._born, self._cost, self.topology.copies)
        trial = CandidateTrial(
            messages,
            self._codec,
            self.topology,
            life,
            self._dictionary,
            ahead=1 if decayed else self._forecast.ahead(self._progress.seen, life),
            segments=(self._segment,) if decayed else _ALL_SEGMENTS,  # after a decay only the present one, to save time
            faded=self._decay.faded,
            forms=self._forms(decayed),
        )
        if trial.is_hopeless:
            self._back_off(trial.breaks_even(trial.now, LEAST) / self._forecast.trusted(self._dictionary is None))
            return KEEP
        best, found = self._best_size(trial, decayed), None
        if best is not None:
            self._size, found = best, trial.finished(best)
        adopted = found is not None and found.saving > found.cost and not self._should_wait(found)
        proposal = self._decide(found, adopted, trial)
        if decayed and not adopted:
            # A new dictionary would not gain: the messages themselves have changed. Measure from here on.
            self._reset_decay()
        later = self._when_to_compare(trial, best if adopted else None)
        self._next_comparison = self._progress.seen + SAMPLE * self._progress.stride if decayed else later
        return proposal

    def _forms(self, decayed: bool) -> Sequence[Form]:
        """Return the forms to try: after a decay the best one so far, otherwise all within the budget."""
        if decayed and self._epochs.settled and self._epochs.best is not None:
            return [self._epochs.best.form]
        return [form for form in FORMS if COSTS[form] <= self.budget] or FORMS[:1]

    def _best_size(self, trial: CandidateTrial, decayed: bool) -> int | None:
        """Return the best size; with a dictionary in use only few are tried, starting at its own size."""
        sizes = fitting(sum(map(len, trial.messages)))
        if self._dictionary is None:
            return climb(sizes, self._size, trial.worth, SEARCHING)
        size = len(self._dictionary.content)
        if decayed:
            return self._similar_size(self._epochs.best.size if self._epochs.best else size, sizes, trial)
        grown = climb(sizes, 2 * size, trial.worth, GROWING)
        return climb(sizes, grown, trial.worth, NEAR) if grown is not None and trial.is_promising else grown

    def _similar_size(self, size: int, sizes: Sequence[int], trial: CandidateTrial) -> int | None:
        """Return this size or twice this size: consecutive messages do not show how long a much larger one lasts.

        Return the smallest size if it would cost less than the last dictionary: it has almost nothing that can fade.
        """
        age = max(self._progress.seen - self._born, 1)
        if not self._epochs.settled and trial.spent(sizes[0], age) < self._epochs.spent:
            return sizes[0]
        near = [other for other in sizes if other <= 2 * size] or sizes
        return climb(near, size, trial.worth, () if self._epochs.settled else REPLACING)

    def _should_wait(self, found: TrialOutcome) -> bool:
        """Return whether to wait for a larger sample: the stream is known to continue and has not paid the cost yet."""
        if self.expected is None or self._progress.seen >= min(SAMPLE, self.expected / LEARNING):
            return False
        return found.gain * self.topology.copies * self._progress.seen < found.cost

    def _decide(self, found: TrialOutcome | None, adopted: bool, trial: CandidateTrial) -> Proposal:
        why = self._why(found, trial)
        if found is not None and adopted:
            self._use(found.dictionary, found.cost)
            self._segment, self._requested_size = found.segment, self._size
            return Replace(found.dictionary, round(trial.life), why)
        if self._dictionary is None:
            self._postpone_check()
            return Keep(why)
        if trial.now < trial.deflated:
            self._postpone_check()
            return Prolong(round(trial.life), why)
        why = self._why(None, trial)
        self._use(None, inf)
        return Replace(None, None, why)

    def _use(self, dictionary: Dictionary | None, cost: float) -> None:
        """Begin the life of a dictionary, or of deflate."""
        self._dictionary, self._cost = dictionary, cost
        self._codec = DEFLATE if dictionary is None else codec_of(dictionary)
        self._born = self._progress.seen
        self._reset_decay()

    def _reset_decay(self) -> None:
        self._decay, self._progress.calm = Decay(), False

    def _back_off(self, pays: float) -> None:
        """Postpone the next comparison until a dictionary may pay, or the stream has grown fourfold."""
        self._next_comparison = min(max(WAIT * self._progress.seen, pays), GROWN * self._progress.seen)
        self._postpone_check()

    def _postpone_check(self) -> None:
        self._checked_from = self._progress.seen + max(
            self._progress.seen - self._born, GATHERED * self._progress.stride
        )

    def _when_to_compare(self, trial: CandidateTrial, adopted: int | None) -> float:
        """Return the message count at which the sample has grown, or a size that did not pay would pay."""
        growing, seen = self._progress.seen < 2 * SAMPLE, self._progress.seen
        pays = trial.next_to_pay(adopted) / self._forecast.trusted(self._dictionary is None)
        if self._dictionary is not None:
            return min(max(AGAIN * seen, pays), GROWN * seen)
        if self.expected is not None:
            return 2 * seen if growing and trial.is_promising else GROWN * seen
        return min(max(WAIT * seen, pays), GROWN * seen)

    def _why(self, found: TrialOutcome | None, trial: CandidateTrial) -> Reasons:
        why: dict[str, float | int | str] = {
            "seen": self._progress.seen,
            "mean size": trial.mean,
            "packed now": trial.now,
            "deflated": trial.deflated,
            "lost since new": self._decay.lost,
            "expected life": trial.life,
            "copies": self.topology.copies,
            "receivers": self.topology.receivers,
        }
        if found is not None:
            why |= {"size": len(found.dictionary.content), "packed by a new one": trial.now - found.gain}
            why |= {"travels in": found.size, "saving": found.saving, "cost": found.cost}
        return why
