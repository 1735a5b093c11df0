"""Processing next to the broker: hosts that run the functions of topics, and what decides which runs where."""

from thinwire.edge.applying import apply, teach, withdraw
from thinwire.edge.controller import Controller
from thinwire.edge.documents import Assignment, EdgeHostDocument, EdgeTopic, Report, Seen
from thinwire.edge.host import EdgeHost
from thinwire.edge.messages import Carried
from thinwire.edge.publishing import EdgePublisher, read_edge
from thinwire.edge.reporting import EdgeReporter

__all__ = [
    "Assignment",
    "Carried",
    "Controller",
    "EdgeHost",
    "EdgeHostDocument",
    "EdgePublisher",
    "EdgeReporter",
    "EdgeTopic",
    "Report",
    "Seen",
    "apply",
    "read_edge",
    "teach",
    "withdraw",
]
