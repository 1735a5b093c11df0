"""The taxi city: taxis that report where they are, once a second, over regions of 500 m by 500 m.

Generated from a seed: taxis drive along the streets of a grid from fare to fare (`taxi_stream`), and the centre draws
more of them than the outskirts (`taxi_city`), so that some regions are busy and most are not. A region has two topics:
on `gps` its taxis say where they are, on `update` they hear where fares are.

>>> first, second = events(2, seed=1, sources=2)
>>> first["timestamp"], first["taxi"], second["taxi"]
('2018-07-02T05:00:00.000Z', 'taxi-00001', 'taxi-00002')
>>> round(sum(regions(sources=50, seconds=10, seed=1).values()))
50
"""

from thinwire_lab.workload.samples.taxi_taxi_city import schema, topic_names
from thinwire_lab.workload.samples.taxi_taxi_stream import MAX_SOURCES, Fleet, batches, events, regions

__all__ = ["MAX_SOURCES", "Fleet", "batches", "events", "regions", "schema", "topic_names"]
