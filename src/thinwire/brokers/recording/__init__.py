"""Recordings: logs and documents of a broker in files with an index, readable without the broker."""

from thinwire.brokers.recording.recording_reader import Recording, open_recording
from thinwire.brokers.recording.recording_writer import RecordingWriter

__all__ = ["Recording", "RecordingWriter", "open_recording"]
