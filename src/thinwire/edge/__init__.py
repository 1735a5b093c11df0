"""Processing at the edge: hosts that run the functions of topics, and the controller that assigns topics to hosts."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.edge.assignment import apply, store_model, withdraw
    from thinwire.edge.controller import Controller
    from thinwire.edge.edge_documents import Assignment, EdgeHostDocument, EdgeReport, EdgeTopic, Seen
    from thinwire.edge.edge_host import EdgeHost
    from thinwire.edge.edge_messages import EdgeMessage, EdgePublisher, read_edge
    from thinwire.edge.latency_report import EdgeReporter
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "assignment": "apply store_model withdraw",
            "controller": "Controller",
            "edge_documents": "Assignment EdgeHostDocument EdgeReport EdgeTopic Seen",
            "edge_host": "EdgeHost",
            "edge_messages": "EdgeMessage EdgePublisher read_edge",
            "latency_report": "EdgeReporter",
        },
    )

__all__ = [
    "Assignment",
    "Controller",
    "EdgeHost",
    "EdgeHostDocument",
    "EdgeMessage",
    "EdgePublisher",
    "EdgeReport",
    "EdgeReporter",
    "EdgeTopic",
    "Seen",
    "apply",
    "read_edge",
    "store_model",
    "withdraw",
]
