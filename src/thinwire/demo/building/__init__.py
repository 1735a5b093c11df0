"""The building sample: events of solar-thermal cooling plants, one per second and plant, generated from a seed.

>>> first, second = events(2, seed=1)
>>> first["timestamp"], first["plant"], first["hot_tank_1"]
('2018-07-02T05:00:00.003Z', 'karlsruhe-solar-cooling-01', 64.0)
>>> [name for name in second if second[name] != first[name]]
['timestamp']
"""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.demo.building.building_stream import BLOCK, BuildingPlant, batches, events, schema
else:
    __getattr__, __dir__ = contents(__name__, {"building_stream": "BLOCK BuildingPlant batches events schema"})

__all__ = ["BLOCK", "BuildingPlant", "batches", "events", "schema"]
