"""Subjects and patterns in the syntax of NATS.

A subject is tokens joined by dots. In a pattern `*` matches exactly one token and `>` at the end matches one or more.

>>> matches("building.*.temperature", "building.11.temperature")
True
>>> matches("building.>", "building"), matches("building.>", "building.11.temperature")
(False, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from thinwire.errors import BadSubject

MAX_SUBJECT = 1024
"""characters"""

ANY_TOKEN, ANY_TOKENS = "*", ">"


def matches(pattern: str, subject: str) -> bool:
    """Return whether `pattern` matches `subject`."""
    expected, words = pattern.split("."), subject.split(".")
    if expected[-1] == ANY_TOKENS:
        expected.pop()
        if len(words) <= len(expected):
            return False
        words = words[: len(expected)]
    return len(expected) == len(words) and all(
        token in (ANY_TOKEN, word) for token, word in zip(expected, words, strict=True)
    )


def is_literal(pattern: str) -> bool:
    """Return whether the pattern has no wildcards."""
    return not {ANY_TOKEN, ANY_TOKENS} & set(pattern.split("."))


@lru_cache(maxsize=4096)  # publishers reuse few subjects
def check_subject(subject: str) -> None:
    """Raise `BadSubject` unless messages can be published under `subject`."""
    _check_tokens(subject)
    if not is_literal(subject):
        raise BadSubject("wildcards are only allowed in a pattern", subject=subject)


def check_pattern(pattern: str) -> None:
    """Raise `BadSubject` unless `pattern` is a valid subscription."""
    _check_tokens(pattern)
    if ANY_TOKENS in pattern.split(".")[:-1]:
        raise BadSubject("'>' is only allowed at the end", pattern=pattern)


def _check_tokens(subject: str) -> None:
    if len(subject) > MAX_SUBJECT:
        raise BadSubject("longer than the limit", subject=subject, length=len(subject), limit=MAX_SUBJECT)
    if not all(subject.split(".")):
        raise BadSubject("it has an empty token", subject=subject)
    if any(letter.isspace() or not letter.isprintable() for letter in subject):
        raise BadSubject("it contains a space or a control character", subject=subject)


class SubjectFilter(dict[str, bool]):
    """Maps a subject to whether one of the patterns matches it; without patterns every subject matches. A cache."""

    def __init__(self, patterns: Sequence[str]) -> None:
        for pattern in patterns:
            check_pattern(pattern)
        self._patterns = tuple(patterns)

    def __missing__(self, subject: str) -> bool:
        found = not self._patterns or any(matches(pattern, subject) for pattern in self._patterns)
        self[subject] = found
        return found
