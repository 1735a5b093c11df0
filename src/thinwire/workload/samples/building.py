"""The building: a stream of a solar-thermal cooling plant, one sample a second.

Generated from a seed by a small physical model (`building_plant`), read by sensors with steps, noise and inertia
(`building_sensors`) into events of one schema (`building_tags`), and compared with the original building's published
sizes (`building_calibration`).

>>> first, second = events(2, seed=1)
>>> first["timestamp"], first["plant"], first["hot_tank_1"]
('2018-07-02T05:00:00.003Z', 'karlsruhe-solar-cooling-01', 64.0)
>>> [name for name in second if second[name] != first[name]]
['timestamp']
"""

from thinwire.workload.samples.building_calibration import Row, calibration
from thinwire.workload.samples.building_stream import Plant, batches, events
from thinwire.workload.samples.building_tags import schema
from thinwire.workload.samples.turns import BLOCK, MAX_SOURCES

__all__ = ["BLOCK", "MAX_SOURCES", "Plant", "Row", "batches", "calibration", "events", "schema"]
