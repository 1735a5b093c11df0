"""Incidents of a stream world. Each takes the world, a publisher and a subscriber."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from random_events import evolve_schema
from stream_sites import StreamPublisherSite, StreamSubscriberSite
from transport_faults import Faults

if TYPE_CHECKING:
    from stream_world import StreamWorld

Incident = Callable[["StreamWorld", StreamPublisherSite, StreamSubscriberSite], None]
MAX_SOURCES = 12


def draw_faults(random: Random, *, calm: bool) -> Faults:
    """Return random faults of the transport; none for a calm world."""
    if calm or random.random() < 0.3:
        return Faults()

    def draw(largest: float) -> float:
        return random.uniform(0, largest) if random.random() < 0.4 else 0.0

    return Faults(
        loss=draw(0.3),
        duplication=draw(0.3),
        reordering=draw(0.3),
        corruption=draw(0.2),
        delay=(0.0, draw(2.0)),
        repeats=((random.randint(1, 30), random.uniform(5, 40)),) if random.random() < 0.3 else (),
        at=random.choice(("delivery", "delivery", "publish")),
    )


def crash_or_restart_publisher(
    world: StreamWorld, publisher: StreamPublisherSite, subscriber: StreamSubscriberSite
) -> None:
    """Crash the publisher, or restart it, in some cases with a new schema version, which subscribers may get later."""
    if publisher.encoder is not None:
        publisher.crash()
        return
    if world.random.random() < 0.3 and publisher.schema.version < 3:
        publisher.schema = evolve_schema(publisher.schema, world.random)
        world.announced.append((world.clock.now() + world.random.choice((0, 2)), publisher.schema))
        world.announced.sort(key=lambda pair: pair[0])
    publisher.start(world.clock.now())
    world.report.restarts += 1


def pause_or_resume_publisher(
    world: StreamWorld, publisher: StreamPublisherSite, subscriber: StreamSubscriberSite
) -> None:
    """Pause the publisher as a long garbage collection or a suspended laptop does, or resume it."""
    publisher.is_paused = not publisher.is_paused
    world.record(f"{publisher.name} {'pauses' if publisher.is_paused else 'resumes'}")


def change_config(world: StreamWorld, publisher: StreamPublisherSite, subscriber: StreamSubscriberSite) -> None:
    """Change the configuration of the publisher within its incarnation."""
    if not publisher.is_paused:
        publisher.reconfigure(world.clock.now())


def add_source(world: StreamWorld, publisher: StreamPublisherSite, subscriber: StreamSubscriberSite) -> None:
    """Add a source to the publisher."""
    if len(publisher.sensors.names) < MAX_SOURCES:
        publisher.sensors.add()


def lose_frames(world: StreamWorld, publisher: StreamPublisherSite, subscriber: StreamSubscriberSite) -> None:
    """Lose a few frames, or as many as the sequence has values, so that the sequence does not show the gap."""
    is_wide_gap = world.wide and world.random.random() < 0.004
    count = 65_536 if is_wide_gap else world.random.choice((1, 2, 256))
    if count < 256 or world.random.random() < 0.4:
        publisher.lose_frames(count, world.clock.now())


def crash_or_start_subscriber(
    world: StreamWorld, publisher: StreamPublisherSite, subscriber: StreamSubscriberSite
) -> None:
    """Crash the subscriber, or start it if it does not run."""
    if subscriber.decoder is not None:
        subscriber.crash()
    else:
        subscriber.start()


def pause_or_resume_subscriber(
    world: StreamWorld, publisher: StreamPublisherSite, subscriber: StreamSubscriberSite
) -> None:
    """Pause the subscriber, so that messages accumulate, or resume it."""
    subscriber.is_paused = not subscriber.is_paused
    world.record(f"{subscriber.name} {'pauses' if subscriber.is_paused else 'resumes'}")


def change_faults(world: StreamWorld, publisher: StreamPublisherSite, subscriber: StreamSubscriberSite) -> None:
    """Change the faults of the transport, in some cases with a partition of some seconds."""
    faults = draw_faults(world.random, calm=world.calm)
    if world.random.random() < 0.4:
        now = world.clock.now()
        faults = faults.partition(now, now + world.random.uniform(0.5, 8))
    world.record(f"faults of the transport: {faults}")
    world.broker.inject(faults)


INCIDENTS: tuple[Incident, ...] = (
    crash_or_restart_publisher,
    crash_or_restart_publisher,
    pause_or_resume_publisher,
    change_config,
    change_config,
    add_source,
    lose_frames,
    crash_or_start_subscriber,
    pause_or_resume_subscriber,
    change_faults,
    change_faults,
)
"""incidents with their relative frequency: an incident that occurs twice is twice as likely"""
