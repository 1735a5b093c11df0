"""Text form of link limits; errors name the field."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import ConfigError
from thinwire_lab.live.link_limits import FREE, Limit, Limits, read_limits

LIMIT = st.tuples(st.integers(1, 10**6), st.integers(0, 3_600_000), st.integers(0, 3_600_000), st.integers(0, 10**6))


@given(LIMIT, LIMIT)
def test_every_field_of_both_directions_is_read(up: tuple[int, ...], down: tuple[int, ...]) -> None:
    texts, limits = [], []
    for direction, (kilobits, first, second, kilobytes) in (("up", up), ("down", down)):
        jitter, delay = sorted((first, second))
        texts += [f"{direction}={kilobits}kbit", f"{direction}.delay={delay}ms", f"{direction}.jitter={jitter}ms"]
        texts.append(f"{direction}.burst={kilobytes}kB")
        limits.append(Limit(kilobits * 125.0, delay * 1e-3, jitter * 1e-3, kilobytes * 1000))
    assert read_limits(",".join(texts)) == Limits(*limits)


def test_the_more_specific_limit_applies() -> None:
    limits = read_limits("delay=100ms, up=1Mbit/s , bandwidth = 64kB ,down.delay=20ms,up.burst=4kB")
    assert limits == Limits(Limit(125_000.0, 0.1, burst=4_000), Limit(64_000.0, 0.02))


def test_an_empty_text_sets_no_limit() -> None:
    assert read_limits(" , ") == FREE


BAD = {
    "up": "field=value",
    "speed=1mbit": "field=value",
    "left.delay=1ms": "field=value",
    "up.up=1kbit": "field=value",
    ".delay=1ms": "field=value",
    "=5": "field=value",
    "up=56": "up='56'",
    "up=fast": "56kbit",
    "up=1e3kbit": "56kbit",
    "up=-5kbit": "56kbit",
    "up=nan": "56kbit",
    "up=0.1bit": "up.bandwidth",
    "delay=5": "150ms",
    "delay=5ms/s": "150ms",
    "down.delay=2h": "down.delay",
    "delay=3601s": "up.delay",
    "delay=10ms,jitter=20ms": "at most the delay",
    "burst=5kB": "burst",
    "up=1kbit,burst=5GB": "up.burst",
    "delay=1ms,delay=2ms": "given twice",
    "up=1kbit,up.bandwidth=2kbit": "given twice",
    "delay=" + "9" * 500 + "s": "one line",
}


@pytest.mark.parametrize("text", sorted(BAD))
def test_invalid_limits_are_reported(text: str) -> None:
    with pytest.raises(ConfigError, match=BAD[text].replace(".", r"\.")):
        read_limits(text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        assert isinstance(read_limits(text), Limits)
