"""The worker process: runs one function, one message at a time. Run as a script; it imports nothing of thinwire.

Requests are read from standard input, answers are written to standard output. What the function prints is redirected to
standard error, which is the log of the host. The process ends with its host: by a signal on Linux, elsewhere at the end
of its input.

    request:  kind (1 byte: a message or a model), length (4), body
    answer:   status (1), start, end, processor seconds (8 each), length (4), body

If the function uses a model, its module has a function `learned` that receives the model as bytes, before the first
message and whenever there is a new model.
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
REQUEST = struct.Struct("!BI")
ANSWER = struct.Struct("!BdddI")
MAX_REASON = 2000
"""characters of an error description"""


def main() -> None:
    """Serve requests until the input ends."""
    function, megabytes, parent = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    _end_with(parent)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # The folder of this script contains modules of the host, not of the function.
    sys.path[0] = os.getcwd()
    try:
        module_name, _, function_name = function.partition(":")
        module = import_module(module_name)
        functions = {MESSAGE: getattr(module, function_name), MODEL: getattr(module, "learned", lambda model: None)}
    except BaseException as problem:
        _answer(answers, RAISED, time.time(), 0.0, _reason(problem))
        return
    _limit_memory(megabytes)
    _answer(answers, NOTHING, time.time(), 0.0, b"")
    _serve(functions, sys.stdin.buffer, answers)


def _serve(functions: Mapping[int, Any], requests: BinaryIO, answers: BinaryIO) -> None:
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        kind, length = REQUEST.unpack(head)
        body = requests.read(length)
        start, cpu = time.time(), time.process_time()
        try:
            status, result = _encode(functions[kind](body))
        except MemoryError:
            status, result = MEMORY, b"memory limit exceeded"
        except Exception as problem:
            status, result = RAISED, _reason(problem)
        _answer(answers, status, start, time.process_time() - cpu, result)
        if status == MEMORY:
            return


def _encode(result: Any) -> tuple[int, bytes]:
    """Return the bytes of a result: bytes as they are, encoded text, or JSON."""
    if result is None:
        return NOTHING, b""
    if isinstance(result, bytes | bytearray | memoryview):
        return RESULT, bytes(result)
    if isinstance(result, str):
        return RESULT, result.encode()
    try:
        return RESULT, json.dumps(result, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        return GARBAGE, f"result of type {type(result).__name__} is not bytes, text or JSON: {problem}".encode()


def _answer(answers: BinaryIO, status: int, start: float, cpu: float, body: bytes) -> None:
    answers.write(ANSWER.pack(status, start, time.time(), cpu, len(body)) + body)
    answers.flush()


def _reason(problem: BaseException) -> bytes:
    return "".join(traceback.format_exception_only(problem)).strip()[-MAX_REASON:].encode("utf-8", "replace")


def _limit_memory(megabytes: int) -> None:
    """Limit the memory to the current size plus `megabytes`."""
    try:
        import resource

        with open("/proc/self/statm", "rb") as sizes:
            loaded = int(sizes.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limit = loaded + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, OSError, ValueError):
        return


def _end_with(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which ends its workers
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)


if __name__ == "__main__":
    main()
