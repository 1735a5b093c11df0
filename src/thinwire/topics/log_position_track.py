"""What a reader follows: the log of a topic, or among the channels of a topic the one of its class.

>>> Track("building.rooms").subjects("p1"), Track("building.rooms").log
('tw.log.building.rooms.p1.*', 'tw_log_building~rooms')
>>> channel = Track("building.rooms", "00ff00ff00ff00ff")
>>> channel.keys("p1"), channel.part("p1")
('tw.chan.building.rooms.00ff00ff00ff00ff.p1.k', 'class/00ff00ff00ff00ff/p1')
"""

from __future__ import annotations

from typing import NamedTuple

from thinwire.topics.names import (
    channel_key_subject,
    channel_log_of,
    channel_subjects,
    key_subject,
    log_of,
    publisher_subjects,
)

LOG_PART = "log/"
"""how the part of a checkpoint begins that holds the state of a publisher's link"""


class Track(NamedTuple):
    """The messages under some subjects of a log, in which rounds of key frames begin under subjects of their own.

    class_id: whose channel; "" for the log that publishers write themselves
    """

    topic: str
    class_id: str = ""

    @property
    def log(self) -> str:
        """Where the messages are kept."""
        return channel_log_of(self.topic) if self.class_id else log_of(self.topic)

    def subjects(self, publisher: str = "*") -> str:
        """All messages that tell of a publisher; of every one by default."""
        if self.class_id:
            return channel_subjects(self.topic, self.class_id, publisher)
        return publisher_subjects(self.topic, publisher)

    def keys(self, publisher: str = "*") -> str:
        """The messages with which a round of key frames begins."""
        if self.class_id:
            return channel_key_subject(self.topic, self.class_id, publisher)
        return key_subject(self.topic, publisher)

    def part(self, publisher: str) -> str:
        """The part of a checkpoint that holds what a reader of these messages knows of a publisher."""
        return f"class/{self.class_id}/{publisher}" if self.class_id else LOG_PART + publisher
