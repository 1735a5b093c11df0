"""Processing functions for tests: valid ones, and one for every kind of failure."""

import json
import os
import time

_leaked = []
_model = [b"none"]


def learned(model: bytes) -> None:
    """Take a model, or fail as its bytes request."""
    if model == b"hang":
        time.sleep(3600)
    if model == b"raise":
        raise ValueError("no such model")
    if model == b"exit":
        os._exit(7)
    _model[0] = model


def by_model(body: bytes) -> bytes:
    return _model[0]


def shout(body: bytes) -> bytes:
    return body.upper()


def even_only(body: bytes) -> bytes | None:
    return body if int(body) % 2 == 0 else None


def counted(body: bytes) -> dict[str, int]:
    return {"length": len(body)}


def wayward(body: bytes) -> object:
    """Return the message, or fail as it requests."""
    what = body.decode()
    if what == "raise":
        raise ValueError("no such taxi")
    if what == "hang":
        time.sleep(3600)
    if what == "spin":
        while True:
            pass
    if what == "garbage":
        return object()
    if what == "leak":
        while True:
            _leaked.append(bytes(1 << 20))
    if what == "exit":
        os._exit(7)
    if what == "huge":
        return bytes(9 << 20)
    if what == "print":
        print("a" * 10_000)
    return what


def environment(body: bytes) -> str:
    return os.environ.get(body.decode(), "")


def slow(body: bytes) -> bytes:
    time.sleep(0.02)
    return body


def recorded(body: bytes) -> bytes:
    """Leaves a line in a file for every call, so that a test can count them."""
    order = json.loads(body)
    with open(order["file"], "a") as calls:
        calls.write(f"{order['n']}\n")
    time.sleep(order.get("seconds", 0.0))
    return body
