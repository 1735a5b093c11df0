"""Many subscriptions of one source in real processes: audited subscribers receive exactly what `greedy` delivers."""

import asyncio

import pytest

from thinwire_lab.live.tolerance_groups import WIDEST, run_tolerance_groups, spread_tolerances


@pytest.mark.slow
def test_every_audited_subscriber_receives_exactly_the_due_events():
    shares = []
    found = asyncio.run(run_tolerance_groups(40, 3, 300, 2_000, shares.append))
    assert found.wrong == ()
    assert found.delivered > 0
    assert (found.classes, found.events) == (40, 300)
    assert shares == sorted(shares)


def test_tolerances_go_from_one_tick_to_the_widest():
    found = spread_tolerances(50)
    assert (len(set(found)), found[0], found[-1]) == (50, 1, WIDEST)
