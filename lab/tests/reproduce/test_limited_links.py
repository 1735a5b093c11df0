"""Smaller messages over narrow lines: virtual time follows arithmetic and the thesis, live is never faster."""

import asyncio
import json

import pytest

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.errors import ConfigError, CorruptFrame
from thinwire_lab.bench.dictionary_bench import LinkPair, _difference_row, _speed_row
from thinwire_lab.live.link_limits import FREE, read_limits
from thinwire_lab.reproduce.dictionaries.link_live import Measurements, run_cell
from thinwire_lab.reproduce.dictionaries.link_parties import METHODS, TWEETS, Load, Plain, codecs, measure_load
from thinwire_lab.reproduce.dictionaries.link_simulation import (
    NAMED,
    TWEET_LOADS,
    Cell,
    LinkOutcome,
    compare,
    delay_cells,
    grid,
    message_overhead,
    simulate,
)
from thinwire_lab.reproduce.dictionaries.thesis_numbers import SPEED_UPS
from thinwire_lab.streams.named_streams import NamedStream


def test_a_publisher_that_waits_takes_a_round_trip_a_message() -> None:
    cell = Cell(1, 1, "bandwidth=1mbit,delay=50ms", messages=40)
    load = TWEETS["plain"]
    around = message_overhead(load)
    trip = (3078 + around.publish_bytes + around.store_ack_bytes) / 125_000 + 0.1
    found = simulate(cell, load)
    assert found.publishing == pytest.approx(40 * trip)
    assert found.answered == pytest.approx((trip, trip))
    assert found.delivered[0] == pytest.approx((2 * 3078 + around.publish_bytes + around.deliver_bytes) / 125_000 + 0.1)


def test_a_full_line_to_subscribers_is_as_fast_as_its_bytes() -> None:
    cell = Cell(55, 2, "bandwidth=1mbit,delay=50ms", messages=550)
    for load in TWEETS.values():
        passing = 550 * (load.mean + message_overhead(load).deliver_bytes) / 125_000
        assert passing < simulate(cell, load).receiving < passing + 0.2 + 55 * load.pack


@pytest.mark.parametrize(
    ("rate", "publishers"), [("1mbit", 1), ("1mbit", 3), ("1mbit", 13), ("2mbit", 21), ("4mbit", 5), ("4mbit", 13)]
)
def test_the_thesis_saw_the_same(rate: str, publishers: int) -> None:
    """Its columns differ among each other by more than this, though subscribers do not share a line."""
    limits = f"bandwidth={rate},delay=50ms"
    cell = compare(TWEET_LOADS, messages=400, publishers=publishers, subscribers=1, limits=limits)
    row = [SPEED_UPS["receiving"][rate][publishers, subscribers] for subscribers in (1, 2, 3, 5)]
    assert cell["receiving_dictionary"] == pytest.approx(sum(row) / len(row), rel=0.25)
    if rate in SPEED_UPS["publishing"]:
        publishing = SPEED_UPS["publishing"][rate][publishers, 1]
        assert cell["publishing_dictionary"] == pytest.approx(publishing, rel=0.15)


def test_compression_does_not_help_without_a_limit() -> None:
    (row,) = grid([{"publishers": 3, "subscribers": 2, "limits": "delay=50ms", "loads": TWEET_LOADS, "messages": 60}])
    assert row["receiving_dictionary"] == pytest.approx(1.0, abs=0.01)
    assert row["publishing_deflate"] == pytest.approx(1.0, abs=0.01)


def test_cells_and_rows_are_documents_and_repeat() -> None:
    cells = delay_cells(["64kbit", "4mbit"], ["50ms"], messages=20)
    assert json.loads(json.dumps(cells)) == cells
    rows = grid(cells)
    assert json.loads(json.dumps(rows)) == rows == grid(cells)


def test_a_paced_course_shows_latency_before_the_line_is_full() -> None:
    """Four tweets a second fit into 128 kbit, and into a line that is four times too narrow only when packed."""
    common = {"publishers": 1, "subscribers": 1, "messages": 40, "pace": 0.25, "window": 40}
    wide = compare(TWEET_LOADS, limits="bandwidth=128kbit,delay=50ms", **common)
    narrow = compare(TWEET_LOADS, limits="bandwidth=32kbit,delay=50ms", **common)
    assert wide["plain.delivered_p99"] < 1
    assert narrow["plain.delivered_p99"] > 10
    assert narrow["dictionary.delivered_p99"] < 1


def test_named_cells_can_be_read() -> None:
    assert len(NAMED) * len(METHODS) == 12
    for cell in NAMED.values():
        assert read_limits(cell.limits) != FREE
        assert sum(map(len, cell.split([1]))) == cell.messages


def test_methods_give_back_what_they_packed() -> None:
    messages = list(NamedStream("taxi-json").messages(300))
    packers = codecs(messages[:250])
    sizes = [measure_load(packers[method], messages[250:]).mean for method in METHODS]
    assert sizes == sorted(sizes, reverse=True)
    assert [packers[method].unpack(packers[method].pack(messages[-1]), 4096) for method in METHODS] == [
        messages[-1]
    ] * 3
    with pytest.raises(CorruptFrame):
        Plain().unpack(b"four", 3)
    with pytest.raises(ConfigError, match="messages=2"):
        codecs(messages[:2])


def test_rows_report_distance_and_speedup() -> None:
    cell, load = NAMED["GPRS"], Load((100,))
    live, virtual = LinkOutcome(2.0, 2.18, (0.4, 0.5), (0.3, 0.9)), LinkOutcome(2.0, 2.0, (0.4, 0.4), (0.3, 0.3))
    plain = LinkPair("GPRS", "plain", cell, load, live, virtual, store=0.001, late=0.0)
    row = _difference_row(plain)
    assert (row.value, row.holds) == (pytest.approx(0.09), True)
    assert "receiving" in row.how
    busy = _difference_row(LinkPair("GPRS", "plain", cell, load, live, virtual, store=0.001, late=0.2))
    assert (busy.holds, "200 ms late" in busy.invalid) == (False, True)
    packed = LinkPair("GPRS", "dictionary", cell, load, virtual, virtual, store=0.001, late=0.0)
    assert _speed_row(packed, plain).value == pytest.approx(1.09)


def test_notes_give_the_latencies_of_messages() -> None:
    notes = Measurements({5: 1.0, 6: 2.0}, {5: 1.5, 6: 2.5}, [{5: 1.2, 6: 2.2}], published=[2.5], received=[2.2])
    found = notes.outcome(start=1.0)
    assert found.figures() == pytest.approx(
        LinkOutcome(publishing=1.5, receiving=1.2, answered=(0.5, 0.5), delivered=(0.2, 0.2)).figures()
    )


def test_live_is_never_faster_than_the_line() -> None:
    cell = Cell(2, 2, "bandwidth=400kbit,delay=20ms,jitter=5ms", messages=24, window=2)
    messages = list(NamedStream("taxi-json").messages(24))

    async def scenario() -> LinkOutcome:
        async with EmbeddedServer() as server:
            return (await run_cell(cell, Plain(), messages, server.port))[0]

    live = asyncio.run(scenario())
    virtual = simulate(cell, Load(tuple(map(len, messages))))
    assert live.receiving > 0.9 * virtual.receiving
    assert live.publishing > 0.9 * virtual.publishing
    assert live.answered[0] > 0.04 - 0.01
