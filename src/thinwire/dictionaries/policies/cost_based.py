"""Our own policy: replace a dictionary exactly when that is expected to save more bytes than it costs.

    saving    bytes a message that a new dictionary packs smaller, times the copies of a message that travel, times the
              messages it is expected to live for
    cost      the bytes of the dictionary as it travels (packed, delta-coded to the one before), to every receiver

A life ends where the stream ends (if its length is known; no more than ten times what has been seen is counted on) or
where the dictionary has decayed. Where nobody says how long it is, nothing is known of its scale, and the chance
that it outlives its n messages by x is n / (n + x). Counting no more than six further n, it is then expected to go on
for n ln 7, about twice as long as it has gone on: no dictionary is spread before its saving on what has been seen would
have paid for half of it, so that a stream too short for any dictionary costs what deflate costs. Which one it is then
matters for longer: sizes are compared over what every publisher may be expected to send, and one that pays is put off
for a better one that will pay before the stream has doubled. Another one has less to gain and can wait: it is credited
with n / 2.

Decay is what the messages themselves show: a dictionary that loses d bytes a message with every message is best
replaced every sqrt(2 cost / (d copies)) messages, when half of its present loss, over such a life, comes to the cost of
another. The next one is like the one that cost least in the end (`Epochs`).

How messages are packed is part of the choice: with the content alone and zlib where they are short, with the tables of
zstd where they hold much text, at the level that the budget of CPU time allows. Where no dictionary pays, there is
none: messages are deflated.

The sampler looks at few messages: every one at first, then as many for every doubling of the stream, a quarter of them
where nothing speaks for decay, and one in `STRIDE` in the end. It trains when a size that was not worth its cost before
would be by now, when the stream has grown fourfold, and when the dictionary has decayed. Sizes are compared by
sketches, in large steps where there is a dictionary; only what is to be proposed is made from all messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from thinwire.dictionaries.codecs import Codec, codec_of
from thinwire.dictionaries.dictionary import Dictionary
from thinwire.dictionaries.policies.candidate_trial import (
    FORMS,
    GROWING,
    LADDER,
    LEAST,
    NEAR,
    REPLACING,
    SEARCHING,
    CandidateTrial,
    TrialOutcome,
    at_most,
    climbed,
    fitting,
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
    Trainer,
)
from thinwire.dictionaries.topology import ONE_TO_ONE, Topology
from thinwire.dictionaries.training import COSTS, SEGMENTS, USUAL_SEGMENT

SAMPLE, SAMPLE_BYTES = 2000, 1 << 19
FIRST = 64
"""messages before the first look; a thousandth of the stream where its length is known, a thousand at most"""
FEWEST = 16
"""messages that anything can be learned from"""
START = 2048
"""bytes; the size that is tried first"""
WAIT, AGAIN, GROWN = 1.25, 2, 4
"""a look is not repeated before the stream has grown by this: without a dictionary, with one where another may pay by
then, and in any case"""
LEARNING = 200
"""the part of a stream of known length that a better sample is waited for at most"""
GATHERED = 800
"""messages in a row that a decayed dictionary is replaced from: it knows the older ones"""
CHECKED, COMPARED = 16, 32
"""one message of the sample in so many is the occasion to ask for decay, and is deflated to compare"""
CALM = 4
"""one message of the sample in so many is packed while nothing speaks for decay"""
LIKE_DEFLATE = 1.0
"""budget: no more CPU time than messages without a dictionary take"""


class CostBased:
    """Spreads a dictionary where it pays.

    topology: how many publishers and subscribers it has to reach
    expected: messages that the stream will have, where that is known
    ladder: sizes to choose from
    train: what makes dictionaries, where others are wanted
    budget: CPU time to pack a message, as a multiple of deflate's (see `choose`)

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
        ladder: tuple[int, ...] = LADDER,
        train: Trainer | None = None,
        budget: float = LIKE_DEFLATE,
    ) -> None:
        self.topology = topology
        self.expected = expected
        self.ladder = ladder
        self.train = train
        self.budget = budget
        self._history = History(SAMPLE, SAMPLE_BYTES)
        self._pace = StreamProgress()
        self._look_at: float = FIRST if expected is None else min(max(expected // 1000, FIRST), 1000)
        self._due = False
        self._dictionary: Dictionary | None = None
        self._codec: Codec = DEFLATE
        self._born = 0
        self._cost = inf
        self._decay = Decay()
        self._epochs = Epochs()
        self._quiet = 0
        self._sampled = 0
        self._size, self._segment = START, USUAL_SEGMENT  # that suited the stream best so far
        self._asked = START  # size of the dictionary in use

    def offer(self, message: bytes) -> None:
        self._pace.seen += 1
        if self._pace.seen >= self._pace.next:
            self._sample(message)

    def offer_all(self, messages: Sequence[bytes]) -> None:
        pace = self._pace
        before, end = pace.seen, pace.seen + len(messages)
        while pace.next <= end:
            pace.seen = pace.next
            self._sample(messages[pace.seen - before - 1])
        pace.seen = end

    def resume(self, seen: int, dictionary: Dictionary | None) -> None:
        """Go on where another left off that had seen so many messages; `dictionary`: what it had spread."""
        if not seen:
            return
        self._pace.seen = self._born = seen
        self._pace.next = seen + 1
        if dictionary is None:
            self._look_at, self._pace.gathering = seen, GATHERED
            return
        self._dictionary, self._codec = dictionary, codec_of(dictionary)
        self._cost = at_most(dictionary, None) * self.topology.receivers
        self._look_at = GROWN * seen

    def propose(self) -> Proposal:
        if not self._due:
            return KEEP
        self._due = False
        return self._look()

    def _sample(self, message: bytes) -> None:
        self._history.add(message)
        gathering = self._pace.gathering
        self._pace.advance()
        if gathering:
            self._due = not self._pace.gathering
            return
        self._sampled += 1
        if self._dictionary is not None and not (self._pace.calm and self._sampled % CALM):
            self._judge(message)
        if self._pace.seen >= self._look_at:
            self._due = True

    def _judge(self, message: bytes) -> None:
        decay = self._decay
        size = len(self._codec.pack(message))
        decay.judge(len(message), size + SLOT)
        self._epochs.judge(len(message), size + SLOT)
        self._pace.calm = decay.calm
        if not decay.judged % COMPARED:
            decay.compare(size, len(DEFLATE.pack(message)))
        if not decay.judged % CHECKED and self._pace.seen >= self._quiet:
            self._pace.gathering = GATHERED if decay.worse or self._has_decayed() else 0

    def _has_decayed(self) -> bool:
        return self._prospects.has_decayed(self._decay, self._life(), self._cost)

    def _life(self) -> float:
        """Messages that a new dictionary is expected to live for."""
        seen, lost = self._pace.seen, self._decay.lost
        return self._prospects.life(seen, first=self._first, lost=lost, age=seen - self._born, cost=self._cost)

    @property
    def _prospects(self) -> StreamForecast:
        return StreamForecast(self.topology, self.expected)  # the topology may be told anew at any time

    @property
    def _first(self) -> bool:
        return self._dictionary is None

    def _look(self) -> Proposal:
        decayed, self._pace.gathering = self._pace.seen < self._look_at, 0
        messages = self._history.last(GATHERED if decayed else SAMPLE)
        if len(messages) < FEWEST:
            self._back_off(inf)
            return KEEP
        life = self._life()
        if decayed and self._dictionary is not None:
            self._end_epoch(self._dictionary)
        ahead = 1 if decayed else self._prospects.ahead(self._pace.seen, life)
        segments, faded = self._segments(decayed), self._decay.faded
        forms = self._forms(decayed)
        trial = CandidateTrial(
            messages, self._codec, self.topology, life, self._dictionary, ahead, segments, self.train, faded, forms
        )
        if trial.hopeless:
            self._back_off(trial.breaks_even(trial.now, LEAST) / self._prospects.trusted(self._first))
            return KEEP
        best = self._climb(trial, decayed)
        found = self._chosen(trial, best) if best is not None else None
        adopted = found is not None and found.saving > found.cost and not self._better_later(found)
        proposal = self._decide(found if adopted else None, found, trial)
        if decayed and not adopted:
            # A new one would not gain: what was lost lies in the messages, and this is what they take from now on.
            self._judge_anew()
        later = self._next_look(trial, best if adopted else None)
        self._look_at = self._pace.seen + SAMPLE * self._pace.stride if decayed else later
        return proposal

    def _forms(self, decayed: bool) -> Sequence[Form]:
        """What to pack with: what has proved itself, or all that the budget allows."""
        if decayed and self._epochs.settled and self._epochs.best is not None:
            return [self._epochs.best.form]
        return [form for form in FORMS if COSTS[form] <= self.budget] or FORMS[:1]

    def _segments(self, decayed: bool) -> Sequence[int]:
        """Lengths of segments to try; what served where time presses."""
        return (self._segment,) if decayed else tuple(dict.fromkeys((USUAL_SEGMENT, *SEGMENTS)))

    def _end_epoch(self, dictionary: Dictionary) -> None:
        kind = DictionaryKind(self._asked, (dictionary.codec, dictionary.level))
        self._epochs.end(kind, self._pace.seen - self._born, self._cost, self.topology.copies)

    def _climb(self, trial: CandidateTrial, decayed: bool) -> int | None:
        """The size that is worth most; with a dictionary in use few are asked for, from its own size on."""
        sizes = fitting(sum(map(len, trial.messages)), self.ladder)
        if self._dictionary is None:
            return climbed(sizes, self._size, trial.worth, SEARCHING)
        size = len(self._dictionary.content)
        if decayed:
            return self._like(self._epochs.best.size if self._epochs.best else size, sizes, trial)
        grown = climbed(sizes, 2 * size, trial.worth, GROWING)
        return climbed(sizes, grown, trial.worth, NEAR) if grown is not None and trial.promising else grown

    def _like(self, size: int, sizes: Sequence[int], trial: CandidateTrial) -> int | None:
        """This size, or one twice as large: messages in a row say little about how long a much larger one lasts.

        The smallest where it would take less than the last one took: it has next to nothing that could fade.
        """
        age = max(self._pace.seen - self._born, 1)
        if not self._epochs.settled and trial.spent(sizes[0], age) < self._epochs.spent:
            return sizes[0]
        near = [one for one in sizes if one <= 2 * size] or sizes
        return climbed(near, size, trial.worth, () if self._epochs.settled else REPLACING)

    def _chosen(self, trial: CandidateTrial, size: int) -> TrialOutcome | None:
        self._size = size
        return trial.finished(size)

    def _decide(self, adopted: TrialOutcome | None, found: TrialOutcome | None, trial: CandidateTrial) -> Proposal:
        if adopted is not None:
            return self._adopt(adopted, trial)
        if self._dictionary is not None and trial.now >= trial.deflated:
            return self._drop(trial)
        return self._stay(found, trial)

    def _better_later(self, found: TrialOutcome) -> bool:
        """Is it wiser to wait for a larger sample? Where it cannot pay before, and the stream is known to go on."""
        if self.expected is None or self._pace.seen >= min(SAMPLE, self.expected / LEARNING):
            return False
        return found.gain * self.topology.copies * self._pace.seen < found.cost

    def _adopt(self, found: TrialOutcome, trial: CandidateTrial) -> Replace:
        why = self._why(found, trial)
        self._dictionary, self._codec, self._cost = found.dictionary, codec_of(found.dictionary), found.cost
        self._segment, self._asked = found.segment, self._size
        self._begin_anew()
        return Replace(found.dictionary, round(trial.life), why)

    def _drop(self, trial: CandidateTrial) -> Replace:
        why = self._why(None, trial)
        self._dictionary, self._codec, self._cost = None, DEFLATE, inf
        self._begin_anew()
        return Replace(None, None, why)

    def _begin_anew(self) -> None:
        self._born = self._pace.seen
        self._judge_anew()

    def _judge_anew(self) -> None:
        self._decay, self._pace.calm = Decay(), False

    def _stay(self, found: TrialOutcome | None, trial: CandidateTrial) -> Proposal:
        why = self._why(found, trial)
        self._be_quiet()
        return Prolong(round(trial.life), why) if self._dictionary is not None else Keep(why)

    def _back_off(self, pays: float) -> None:
        """Look again when a dictionary may pay; before that only because the stream may have become another."""
        self._look_at = min(max(WAIT * self._pace.seen, pays), GROWN * self._pace.seen)
        self._be_quiet()

    def _be_quiet(self) -> None:
        self._quiet = self._pace.seen + max(self._pace.seen - self._born, GATHERED * self._pace.stride)

    def _next_look(self, trial: CandidateTrial, adopted: int | None) -> float:
        """When the sample has grown, or a size that did not pay would."""
        growing, seen = self._pace.seen < 2 * SAMPLE, self._pace.seen
        pays = trial.next_to_pay(adopted) / self._prospects.trusted(self._first)
        if self._dictionary is not None:
            return min(max(AGAIN * seen, pays), GROWN * seen)
        if self.expected is not None:
            return 2 * seen if growing and trial.promising else GROWN * seen
        return min(max(WAIT * seen, pays), GROWN * seen)

    def _why(self, found: TrialOutcome | None, trial: CandidateTrial) -> Reasons:
        why: dict[str, float | int | str] = {
            "seen": self._pace.seen,
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
