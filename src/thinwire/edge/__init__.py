"""Processing next to the broker: hosts that run the functions of topics, and what decides which runs where."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.edge.assignment import apply, teach, withdraw
    from thinwire.edge.controller import Controller
    from thinwire.edge.edge_documents import Assignment, EdgeHostDocument, EdgeReport, EdgeTopic, Seen
    from thinwire.edge.edge_host import EdgeHost
    from thinwire.edge.edge_messages import Carried, EdgePublisher, read_edge
    from thinwire.edge.latency_report import EdgeReporter
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "assignment": "apply teach withdraw",
            "controller": "Controller",
            "edge_documents": "Assignment EdgeHostDocument EdgeReport EdgeTopic Seen",
            "edge_host": "EdgeHost",
            "edge_messages": "Carried EdgePublisher read_edge",
            "latency_report": "EdgeReporter",
        },
    )

__all__ = [
    "Assignment",
    "Carried",
    "Controller",
    "EdgeHost",
    "EdgeHostDocument",
    "EdgePublisher",
    "EdgeReport",
    "EdgeReporter",
    "EdgeTopic",
    "Seen",
    "apply",
    "read_edge",
    "teach",
    "withdraw",
]
