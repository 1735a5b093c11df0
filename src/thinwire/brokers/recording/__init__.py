"""Recordings: logs and documents of a broker in files with an index, readable without the broker."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.brokers.recording.recording_reader import Recording, open_recording
    from thinwire.brokers.recording.recording_writer import RecordingWriter
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "recording_reader": "Recording open_recording",
            "recording_writer": "RecordingWriter",
        },
    )

__all__ = [
    "Recording",
    "RecordingWriter",
    "open_recording",
]
