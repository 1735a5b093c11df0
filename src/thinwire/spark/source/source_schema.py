"""From options to a source of logs, and to the topics that are read from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from thinwire.brokers.protocol_source import LogSource
from thinwire.errors import ConfigError
from thinwire.spark.source.source_options_options import Options
from thinwire.topics.names import topic_of


@contextmanager
def opened(options: Options) -> Iterator[LogSource]:
    """The source that the options name, closed at the end."""
    source = open_any(options)
    try:
        yield source
    finally:
        source.close()


def open_any(options: Options) -> LogSource:
    """The source that the options name; whoever asks for it closes it."""
    if options.path is not None:
        from thinwire.brokers.recording import open_recording

        return open_recording(options.path)
    from thinwire.brokers.nats.blocking import open_source

    assert options.servers is not None
    return open_source(options.servers, **options.connection)


def topics_of(source: LogSource, options: Options) -> list[str]:
    """The topics that are read; one that was named need not have a log yet."""
    if options.pattern is None:
        return list(options.topics)
    there = sorted(topic for topic in map(topic_of, source.logs()) if topic is not None)
    found = [topic for topic in there if re.fullmatch(options.pattern, topic)]
    if not found:
        raise ConfigError("no topic matches", option="subscribePattern", value=options.pattern, topics=there[:20])
    return found
