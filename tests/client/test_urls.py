"""URLs name a broker, and what is secret in them is never shown."""

from __future__ import annotations

import asyncio

import pytest

import thinwire as tw
from thinwire.brokers.broker_url import read_url
from thinwire.errors import BadUrl, ConfigError


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://localhost", "nats://localhost"),
        ("nats://a:1,b:2", "nats://a:1,b:2"),
        ("nats://ada:s3cret@a,nats://t0ken@b", "nats://a,b"),
        ("tls://t0ken@a:4222", "tls://a:4222"),
        ("embedded:///var/lib/tw", "embedded:///var/lib/tw"),
        ("memory://a", "memory://a"),
    ],
)
def test_what_is_shown_of_a_url(url: str, shown: str) -> None:
    assert read_url(url).shown == shown
    assert "s3cret" not in repr(tw.connect(url))
    assert "t0ken" not in repr(read_url(url))


@pytest.mark.parametrize("url", ["", "localhost:4222", "http://a"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(BadUrl):
        read_url(url)


def test_a_refused_url_shows_no_secret() -> None:
    with pytest.raises(BadUrl) as refused:
        read_url("ada:s3cret@host")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("url", ["nats://", "nats://a:99999", "nats://a/path"])
def test_an_address_that_cannot_be_one_is_refused_when_connecting(url: str) -> None:
    with pytest.raises(BadUrl):
        asyncio.run(tw.connect(url).__aenter__())


def test_an_unknown_option_is_rejected_by_name() -> None:
    with pytest.raises(ConfigError, match="colour"):
        asyncio.run(tw.connect("nats://localhost:1", colour="red").__aenter__())
