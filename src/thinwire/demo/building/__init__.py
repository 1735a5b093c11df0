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

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.demo.building.building_stream import BLOCK, MAX_SOURCES, BuildingPlant, batches, events
    from thinwire.demo.building.sensor_tags import schema
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "building_stream": "BLOCK BuildingPlant MAX_SOURCES batches events",
            "sensor_tags": "schema",
        },
    )

__all__ = [
    "BLOCK",
    "MAX_SOURCES",
    "BuildingPlant",
    "batches",
    "events",
    "schema",
]
