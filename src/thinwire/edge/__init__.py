"""Processing at the edge: hosts that run the functions of topics, and the controller that assigns topics to hosts."""

from thinwire.edge.assignment import apply, store_model, withdraw
from thinwire.edge.controller import Controller
from thinwire.edge.edge_documents import Assignment, EdgeHostDocument, EdgeReport, EdgeTopic, TopicMeasurements
from thinwire.edge.edge_host import EdgeHost
from thinwire.edge.edge_messages import EdgeMessage, EdgePublisher, read_edge
from thinwire.edge.latency_report import EdgeReporter

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
    "TopicMeasurements",
    "apply",
    "read_edge",
    "store_model",
    "withdraw",
]
