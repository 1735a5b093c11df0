"""Subjects and patterns, as NATS writes them.

A subject is words joined by dots. In a pattern `*` stands for exactly one word and a last `>` for one or more.

>>> matches("building.*.temperature", "building.11.temperature")
True
>>> matches("building.>", "building"), matches("building.>", "building.11.temperature")
(False, True)
"""

from __future__ import annotations

from functools import lru_cache

from thinwire.errors import BadSubject

MAX_SUBJECT = 1024
"""characters"""

ONE, REST = "*", ">"


def matches(pattern: str, subject: str) -> bool:
    """Is this subject one of those the pattern stands for?"""
    wanted, words = pattern.split("."), subject.split(".")
    if wanted[-1] == REST:
        wanted.pop()
        if len(words) <= len(wanted):
            return False
        words = words[: len(wanted)]
    return len(wanted) == len(words) and all(want in (ONE, word) for want, word in zip(wanted, words, strict=True))


def is_literal(pattern: str) -> bool:
    """Does the pattern stand for one subject only?"""
    return not {ONE, REST} & set(pattern.split("."))


@lru_cache(maxsize=4096)  # publishers come back with the same few subjects
def check_subject(subject: str) -> None:
    """Refuse what nobody could publish under."""
    _check_tokens(subject)
    if not is_literal(subject):
        raise BadSubject("wildcards are for subscribing", subject=subject)


def check_pattern(pattern: str) -> None:
    """Refuse what nobody could subscribe to."""
    _check_tokens(pattern)
    if REST in pattern.split(".")[:-1]:
        raise BadSubject("'>' stands at the end only", pattern=pattern)


def _check_tokens(subject: str) -> None:
    if len(subject) > MAX_SUBJECT:
        raise BadSubject("too long", subject=subject, length=len(subject), limit=MAX_SUBJECT)
    if not all(subject.split(".")):
        raise BadSubject("an empty word", subject=subject)
    if any(letter.isspace() or not letter.isprintable() for letter in subject):
        raise BadSubject("a space or a control character", subject=subject)
