"""The inside of a worker process: one function, one message at a time. Run as a script; it needs nothing of the rest.

It is told over its standard input and answers over what was its standard output, which the function cannot reach: what
a function prints goes to the host's log. It dies with its host, by signal on Linux, elsewhere when its input ends.

    question: kind (1 byte: a message, or a model to learn), length (4), then the body
    answer:   status (1), start, end, processor seconds (8 each), length (4), then the body

A module whose function goes by a model has a function `learned` as well, which is given the model as bytes: before the
first message, and whenever there is a new one.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import time
import traceback
from collections.abc import Mapping
from importlib import import_module
from typing import Any, BinaryIO

RESULT, NOTHING, RAISED, GARBAGE, MEMORY = range(5)
MESSAGE, MODEL = range(2)
QUESTION = struct.Struct("!BI")
ANSWER = struct.Struct("!BdddI")
MAX_REASON = 2000
"""characters of what went wrong"""


def main() -> None:
    """Serve until the input ends."""
    function, megabytes, parent = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    _die_with(parent)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # the folder of this script holds modules of the host, not of the function
    sys.path[0] = os.getcwd()
    try:
        name, _, called = function.partition(":")
        module = import_module(name)
        calls = {MESSAGE: getattr(module, called), MODEL: getattr(module, "learned", _unlearned)}
    except BaseException as problem:
        _answer(answers, RAISED, now(), 0.0, _reason(problem))
        return
    _limit(megabytes)
    _answer(answers, NOTHING, now(), 0.0, b"")
    _serve(calls, sys.stdin.buffer, answers)


def _unlearned(model: bytes) -> None:
    """What a module without a function `learned` makes of a model."""


def _serve(calls: Mapping[int, Any], questions: BinaryIO, answers: BinaryIO) -> None:
    while len(head := questions.read(QUESTION.size)) == QUESTION.size:
        kind, length = QUESTION.unpack(head)
        body = questions.read(length)
        start, cpu = now(), time.process_time()
        try:
            status, result = _encoded(calls[kind](body))
        except MemoryError:
            status, result = MEMORY, b"more memory than it may have"
        except Exception as problem:
            status, result = RAISED, _reason(problem)
        _answer(answers, status, start, time.process_time() - cpu, result)
        if status == MEMORY:
            return


def _encoded(result: Any) -> tuple[int, bytes]:
    """The bytes of a result: its own, those of a text, or JSON."""
    if result is None:
        return NOTHING, b""
    if isinstance(result, bytes | bytearray | memoryview):
        return RESULT, bytes(result)
    if isinstance(result, str):
        return RESULT, result.encode()
    try:
        return RESULT, json.dumps(result, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        return (
            GARBAGE,
            f"it returned {type(result).__name__}, which is neither bytes, text nor JSON: {problem}".encode(),
        )


def _answer(answers: BinaryIO, status: int, start: float, cpu: float, body: bytes) -> None:
    answers.write(ANSWER.pack(status, start, now(), cpu, len(body)) + body)
    answers.flush()


def now() -> float:
    """The machine's clock: instants are compared across processes."""
    return time.time()


def _reason(problem: BaseException) -> bytes:
    return "".join(traceback.format_exception_only(problem)).strip()[-MAX_REASON:].encode("utf-8", "replace")


def _limit(megabytes: int) -> None:
    """So much more memory than the function needed to be loaded."""
    try:
        import resource

        with open("/proc/self/statm", "rb") as sizes:
            loaded = int(sizes.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limit = loaded + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, OSError, ValueError):
        return


def _die_with(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the host, which then ends its workers
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)


if __name__ == "__main__":
    main()
