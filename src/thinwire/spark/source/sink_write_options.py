"""The options of writing, read once.

>>> WriteOptions.read({"servers": "nats://broker:4222", "topic": "building.rooms"}).name(3, "q1")
'q1-3'
>>> WriteOptions.read({"servers": "nats://broker:4222"})
Traceback (most recent call last):
...
thinwire.errors.ConfigError: bad setting: name the topic to write to: option='topic'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from thinwire.brokers.broker_url import read_url
from thinwire.errors import ConfigError
from thinwire.spark.source.source_options_options import CREDENTIALS, Asked
from thinwire.topics.names import check_topic, check_word

NAMES = ("servers", "topic", "publisher")
OF_SPARK = ("checkpointLocation", "queryName")
"""options that Spark keeps for itself and hands over all the same"""
MAX_PUBLISHER = 56
"""characters, so that the number of a partition finds room behind them"""


@dataclass(frozen=True)
class WriteOptions:
    """Where rows go: the broker, the topic, and how the names of publishers begin."""

    servers: str
    topic: str
    publisher: str | None = None
    connection: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, options: Mapping[str, str]) -> WriteOptions:
        """The options as Spark hands them over, whatever case their names have."""
        given = {name.lower(): value for name, value in options.items()}
        unknown = sorted(given.keys() - {name.lower() for name in (*NAMES, *CREDENTIALS, *OF_SPARK)})
        if unknown:
            raise ConfigError("no such option of writing", option=unknown[0], choose_from=list(NAMES))
        asked = Asked(given)
        servers, topic, publisher = asked.servers(), asked.text("topic"), asked.text("publisher")
        if servers is None:
            raise ConfigError("name the broker", option="servers")
        if topic is None:
            raise ConfigError("name the topic to write to", option="topic")
        if publisher is not None and len(check_word(publisher, "publisher")) > MAX_PUBLISHER:
            raise ConfigError("too long for the name of publishers", option="publisher", limit=MAX_PUBLISHER)
        connection = {name: given[name] for name in CREDENTIALS if name in given}
        return cls(servers, check_topic(topic), publisher, connection)

    def __repr__(self) -> str:
        return f"WriteOptions({read_url(self.servers).shown}, topic={self.topic!r}, publisher={self.publisher!r})"

    def name(self, partition: int, run: str) -> str:
        """The name of a partition's publisher; a task that is tried again takes it over."""
        return f"{self.publisher or run}-{partition}"
