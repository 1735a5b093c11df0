"""Text form of link limits; errors name the field."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import ConfigError
from thinwire_lab.live.link_limits import FREE, Limit, Limits, read_limits

SECONDS = st.just(0.0) | st.floats(1e-9, 3600) | st.integers(0, 3_600_000).map(lambda n: n * 1e-3)


@st.composite
def limit(draw: st.DrawFn) -> Limit:
    bandwidth = draw(st.none() | st.floats(1, 1e12) | st.integers(1, 10**9).map(lambda n: n * 125.0))
    jitter, delay = sorted((draw(SECONDS), draw(SECONDS)))
    return Limit(bandwidth, delay, jitter, draw(st.integers(0, 1 << 30)) if bandwidth else 0)


@given(limit(), limit())
def test_a_text_reads_back_as_the_same_limits(up: Limit, down: Limit) -> None:
    for limits in (Limits(up, down), Limits.both(up), FREE):
        assert read_limits(str(limits)) == limits


def test_the_more_exact_word_wins() -> None:
    limits = read_limits("delay=100ms, up=1Mbit/s , bandwidth = 64kB ,down.delay=20ms,up.burst=4kB")
    assert limits == Limits(Limit(125_000.0, 0.1, burst=4_000), Limit(64_000.0, 0.02))


def test_nothing_limits_nothing() -> None:
    assert read_limits(" , ") == FREE
    assert str(FREE) == ""


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
def test_what_cannot_be_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=BAD[text].replace(".", r"\.")):
        read_limits(text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        assert isinstance(read_limits(text), Limits)
