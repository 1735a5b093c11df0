"""The taxi city: what leaves the edge counts taxis and names none."""

import asyncio

import pytest

from thinwire_lab.live.edge.taxi_city import taxi_city


@pytest.mark.slow
def test_updates_reach_the_hub_and_no_taxi_does():
    city = asyncio.run(taxi_city(taxis=200, seconds=3, regions=2))
    assert city.positions > 10
    assert city.leaked == 0
    assert len(city.updates) == 2
    for updates in city.updates.values():
        assert updates
        assert all(update.keys() == {"region", "timestamp", "taxis", "free", "speed"} for update in updates)
        assert all(update["taxis"] >= 3 for update in updates)
