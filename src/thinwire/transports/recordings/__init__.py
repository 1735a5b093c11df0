"""Logs on disk: what a broker had, message by message, with an index, to be read without any broker."""

from thinwire.transports.recordings.recording import Recording, open_recording
from thinwire.transports.recordings.writer import RecordingWriter

__all__ = ["Recording", "RecordingWriter", "open_recording"]
