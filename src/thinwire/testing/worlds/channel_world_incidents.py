"""What befalls a world of classes, one thing at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from thinwire.testing.worlds.channel_world_logs import tightened
from thinwire.testing.worlds.world_sensors import evolved
from thinwire.topics.demand_class import DemandClass

if TYPE_CHECKING:
    from thinwire.testing.worlds.channel_world import ChannelWorld

Incident = Callable[["ChannelWorld"], None]
MOST_SOURCES = 8
MOST_READERS = 5


def translator_dies(world: ChannelWorld) -> None:
    """Between any two of its next writes."""
    world.translator.dies_in = world.chance.randint(0, 4)


def translator_pauses(world: ChannelWorld) -> None:
    """Between deciding a write and the write; for longer than its lease lasts, or not."""
    translator = world.translator
    translator.pauses_in = world.chance.randint(0, 4)
    translator.pause = world.chance.choice((1.0, 4.0, 9.0))


def translator_is_written_down(world: ChannelWorld) -> None:
    """A checkpoint of the log, which may not survive."""
    for translator in world.translators:
        translator.write_down()
    if world.chance.random() < 0.2:
        world.ground.spoil_checkpoint(world.chance)


def publisher_dies_or_lives(world: ChannelWorld) -> None:
    """A crash with whatever it has not stored; or a new life, perhaps under the next version of the schema."""
    site = world.chance.choice(world.publishers)
    if site.publisher is not None:
        site.crash()
        return
    if world.chance.random() < 0.3 and site.schema.version < 3:
        site.schema = evolved(site.schema, world.chance)
        world.learn(site.schema)
    site.start(world.clock.now())


def publisher_falls_silent(world: ChannelWorld) -> None:
    """Nothing but heartbeats; or the end of that."""
    site = world.chance.choice(world.publishers)
    site.mute = not site.mute
    world.record(f"{site.name} {'has nothing to say' if site.mute else 'speaks again'}")


def message_is_harmed(world: ChannelWorld) -> None:
    """The log loses a message, or keeps another in its place."""
    site = world.chance.choice(world.publishers)
    if not world.calm:
        site.harm += [world.chance.choice(("hole", "unsent", "spoilt"))] * world.chance.choice((1, 1, 2))


def new_source(world: ChannelWorld) -> None:
    """One more asset."""
    site = world.chance.choice(world.publishers)
    if len(site.sensors.names) < MOST_SOURCES:
        site.sensors.another()


def stricter_or_looser(world: ChannelWorld) -> None:
    """Somebody reads the log itself and asks for more than the classes do, or stops doing so."""
    if world.guest is None:
        world.guest = tightened(world.classes[0], world.schema, world.chance, "guest")
        world.registry.ask(world.guest)
    else:
        world.registry.leave(world.guest.identity)
        world.guest = None


def reader_joins(world: ChannelWorld) -> None:
    """Another one of some class."""
    if len(world.readers) < MOST_READERS:
        world.join(world.chance.choice(world.classes))


def reader_leaves(world: ChannelWorld) -> None:
    """Perhaps the last one of its class, which is closed some time later."""
    if world.readers:
        world.leave(world.chance.choice(world.readers))


def reader_pauses(world: ChannelWorld) -> None:
    """Messages pile up in its channel; or are worked off."""
    if world.readers:
        reader = world.chance.choice(world.readers)
        reader.paused = not reader.paused
        world.record(f"{reader.name} {'pauses' if reader.paused else 'goes on'}")


def reader_moves(world: ChannelWorld) -> None:
    """Another process goes on from what this one has written down."""
    if world.readers:
        world.chance.choice(world.readers).move()


def reader_asks(world: ChannelWorld) -> None:
    """Key frames on request, although nobody is lost."""
    world.ground.asks.add((DemandClass.of(world.chance.choice(world.classes)).id, ""))


INCIDENTS: tuple[Incident, ...] = (
    *(translator_dies,) * 5,
    *(translator_pauses,) * 6,
    translator_is_written_down,
    translator_is_written_down,
    publisher_dies_or_lives,
    publisher_falls_silent,
    message_is_harmed,
    new_source,
    stricter_or_looser,
    stricter_or_looser,
    reader_joins,
    reader_joins,
    reader_leaves,
    reader_pauses,
    reader_moves,
    reader_asks,
)
