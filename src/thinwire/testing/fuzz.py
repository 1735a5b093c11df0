"""Bytes nobody should send, by the million: whatever comes in, only errors of a peer come out.

Five ways in turn, all from one seed: any bytes and spoilt messages to the frame reader; spoilt bodies to the parser of
their kind; spoilt messages to a live subscriber; spoilt bodies in frames whose checksums were mended, so that they are
taken for good and everything behind the checks is reached; and spoilt checkpoints, mended likewise.

>>> run_fuzz(200, seed=1).failures
[]
"""

from __future__ import annotations

import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from thinwire.errors import PeerFault
from thinwire.testing.fuzz_fuzz_targets import MAX_SOURCES, Target, parse_message
from thinwire.wire.control_frames import MAX_SKIP

TARGETS = 6
RENEW_EVERY = 20_000
"""inputs after which other schemas and demands are taken"""

MAX_BYTES = 8 << 20
"""memory one input may take, apart from the events it brings"""
BYTES_AN_EVENT = 2_048

Progress = Callable[[int], None]


@dataclass
class Summary:
    """What a run of fuzzing found.

    refused: inputs that ended in an error, by its name; failures: inputs with any other outcome, ready to be replayed
    events: delivered from spoilt bytes; peak: the most memory one measured input took, in bytes
    """

    seed: int
    inputs: int = 0
    events: int = 0
    peak: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def run_fuzz(count: int, seed: int, progress: Progress | None = None, *, compiled: bool = True) -> Summary:
    """Try so many inputs. One in a few hundred is measured for memory: measuring costs more than parsing."""
    summary = Summary(seed)
    for start in range(0, count, RENEW_EVERY):
        chance = Random(f"{seed}:{start}")
        targets = [Target(chance, compiled=compiled and number % 2 == 0) for number in range(TARGETS)]
        for number in range(start, min(count, start + RENEW_EVERY)):
            target = chance.choice(targets)
            _try(_WAYS[number % len(_WAYS)], target, summary, measured=number % 401 == 0)
            summary.inputs += 1
        if progress is not None:
            progress(summary.inputs)
    return summary


def _try(way: Callable[[Target], int], target: Target, summary: Summary, *, measured: bool) -> None:
    if measured:
        tracemalloc.start()
    events = 0
    try:
        events = way(target)
    except PeerFault as fault:
        summary.refused[type(fault).__name__] += 1
    except Exception as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        summary.failures.append(f"{way.__name__} of input {summary.inputs}: {problem!r} at {where}")
    summary.events += events
    if events > MAX_SOURCES * MAX_SKIP:
        summary.failures.append(f"{way.__name__} of input {summary.inputs}: {events} events out of one message")
    if measured:
        _weigh(way.__name__, events, summary)


def _weigh(way: str, events: int, summary: Summary) -> None:
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    summary.peak = max(summary.peak, peak)
    if peak > MAX_BYTES + events * BYTES_AN_EVENT:
        summary.failures.append(f"{way} of input {summary.inputs}: {peak} bytes of memory for {events} events")


def _frames(target: Target) -> int:
    """Any bytes, or a spoilt message, to the reader of frames."""
    message = target.chance.randbytes(target.chance.randrange(64)) if target.chance.random() < 0.3 else None
    parse_message(target.spoilt_message() if message is None else message)
    return 0


def _bodies(target: Target) -> int:
    """A spoilt body to the parser of its kind."""
    target.parse(*target.spoilt_body())
    return 0


def _messages(target: Target) -> int:
    """A spoilt message to a live subscriber."""
    return len(target.receive(target.spoilt_message()))


def _hostile(target: Target) -> int:
    """A spoilt body in a frame whose checks are right, to a live subscriber."""
    return len(target.receive(target.mended(*target.spoilt_body())))


def _checkpoints(target: Target) -> int:
    """A spoilt checkpoint to a new subscriber, which takes what comes next if it can."""
    target.take_up(target.spoilt_checkpoint())
    return 0


_FRAMES = (_frames, _bodies, _messages, _hostile, _hostile)
_WAYS = (*_FRAMES, *_FRAMES, _checkpoints)
