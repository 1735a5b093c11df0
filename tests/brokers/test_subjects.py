"""Subjects and patterns compared with a brute-force matcher."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.brokers import matches
from thinwire.brokers.subjects import check_pattern, check_subject, is_literal
from thinwire.errors import BadSubject

tokens = st.sampled_from(["a", "b", "room", "*x", "x>"])
subjects = st.lists(tokens, min_size=1, max_size=5).map(".".join)


@st.composite
def patterns(draw):
    parts = draw(st.lists(st.one_of(tokens, st.just("*")), max_size=4))
    rest = draw(st.booleans()) or not parts
    return ".".join([*parts, *([">"] if rest else [])])


def brute_force(pattern, subject):
    parts = {"*": r"[^.]+", ">": r".+"}
    return (
        re.fullmatch(r"\.".join(parts.get(word, re.escape(word)) for word in pattern.split(".")), subject) is not None
    )


@given(patterns(), subjects)
def test_matching_agrees_with_brute_force(pattern, subject):
    check_pattern(pattern)
    assert matches(pattern, subject) == brute_force(pattern, subject)


@given(subjects)
def test_subject_matches_only_itself(subject):
    check_subject(subject)
    assert is_literal(subject)
    assert matches(subject, subject)
    assert matches(">", subject)
    assert not matches(subject, subject + ".more")


@pytest.mark.parametrize("text", ["", ".", "a..b", ".a", "a.", "a b", "a\tb", "a\r\nPUB", "a\x00", "a" * 1025])
def test_invalid_subjects_and_patterns(text):
    for check in (check_subject, check_pattern):
        with pytest.raises(BadSubject, match="Subjects are tokens joined by dots"):
            check(text)


@pytest.mark.parametrize("text", ["*", ">", "a.*", "a.>"])
def test_wildcards_in_a_subject_are_refused(text):
    check_pattern(text)
    with pytest.raises(BadSubject, match="wildcards"):
        check_subject(text)


def test_rest_wildcard_is_last():
    with pytest.raises(BadSubject, match="at the end"):
        check_pattern("a.>.b")
