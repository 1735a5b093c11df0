"""Copying the logs of topics into a recording, with the documents without which nobody could read them."""

from thinwire.control.recording.copied import Copied
from thinwire.control.recording.places import Start
from thinwire.control.recording.recorder import Recorder, open_logs

__all__ = ["Copied", "Recorder", "Start", "open_logs"]
