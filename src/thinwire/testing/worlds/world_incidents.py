"""What befalls a world, one thing at a time: each incident takes the world, one publisher and one reader."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from thinwire.testing.worlds.transport_faults import Faults
from thinwire.testing.worlds.world_sensors import evolved
from thinwire.testing.worlds.world_sites import StreamPublisherSite, SubscribingSite

if TYPE_CHECKING:
    from thinwire.testing.worlds.stream_world import StreamWorld

Incident = Callable[["StreamWorld", StreamPublisherSite, SubscribingSite], None]
MOST_SOURCES = 12


def draw_faults(chance: Random, *, calm: bool) -> Faults:
    """How the ways misbehave from now on: not at all in a calm world, in some ways at a time elsewhere."""
    if calm or chance.random() < 0.3:
        return Faults()

    def sometimes(most: float) -> float:
        return chance.uniform(0, most) if chance.random() < 0.4 else 0.0

    return Faults(
        loss=sometimes(0.3),
        duplication=sometimes(0.3),
        reordering=sometimes(0.3),
        corruption=sometimes(0.2),
        delay=(0.0, sometimes(2.0)),
        repeats=((chance.randint(1, 30), chance.uniform(5, 40)),) if chance.random() < 0.3 else (),
        at=chance.choice(("delivery", "delivery", "publish")),
    )


def publisher_dies_or_lives(world: StreamWorld, site: StreamPublisherSite, reader: SubscribingSite) -> None:
    """A crash; or a new life, perhaps under the next version of the schema, of which readers may learn later."""
    if site.alive:
        site.crash()
        return
    if world.chance.random() < 0.3 and site.schema.version < 3:
        site.schema = evolved(site.schema, world.chance)
        world.announced.append((world.clock.now() + world.chance.choice((0, 2)), site.schema))
        world.announced.sort(key=lambda pair: pair[0])
    site.start(world.clock.now())
    world.report.restarts += 1


def publisher_pauses(world: StreamWorld, site: StreamPublisherSite, reader: SubscribingSite) -> None:
    """A long garbage collection, a laptop closed; or its end."""
    site.paused = not site.paused
    world.record(f"{site.name} {'pauses' if site.paused else 'goes on'}")


def new_demand(world: StreamWorld, site: StreamPublisherSite, reader: SubscribingSite) -> None:
    """Other tolerances in the same life."""
    if not site.paused:
        site.reconfigure(world.clock.now())


def new_source(world: StreamWorld, site: StreamPublisherSite, reader: SubscribingSite) -> None:
    """One more asset."""
    if len(site.sensors.names) < MOST_SOURCES:
        site.sensors.another()


def frames_vanish(world: StreamWorld, site: StreamPublisherSite, reader: SubscribingSite) -> None:
    """A few frames are lost, or as many as the sequence cannot show."""
    everything = site.wide and world.chance.random() < 0.004
    count = 65_536 if everything else world.chance.choice((1, 2, 256))
    if count < 256 or world.chance.random() < 0.4:
        site.vanish(count, world.clock.now())


def subscriber_dies_or_joins(world: StreamWorld, site: StreamPublisherSite, reader: SubscribingSite) -> None:
    """A crash, or a late joiner."""
    if reader.subscriber is not None:
        reader.crash()
    else:
        reader.start()


def subscriber_pauses(world: StreamWorld, site: StreamPublisherSite, reader: SubscribingSite) -> None:
    """Messages pile up; or are worked off."""
    reader.paused = not reader.paused
    world.record(f"{reader.name} {'pauses' if reader.paused else 'goes on'}")


def other_faults(world: StreamWorld, site: StreamPublisherSite, reader: SubscribingSite) -> None:
    """The ways misbehave otherwise, and may be cut for some seconds."""
    faults = draw_faults(world.chance, calm=world.calm)
    if world.chance.random() < 0.4:
        now = world.clock.now()
        faults = faults.partition(now, now + world.chance.uniform(0.5, 8))
    world.record(f"from now on {faults}")
    world.broker.inject(faults)


INCIDENTS: tuple[Incident, ...] = (
    publisher_dies_or_lives,
    publisher_dies_or_lives,
    publisher_pauses,
    new_demand,
    new_demand,
    new_source,
    frames_vanish,
    subscriber_dies_or_joins,
    subscriber_pauses,
    other_faults,
    other_faults,
)
