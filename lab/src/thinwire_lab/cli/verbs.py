"""Commands that the lab adds to `thinwire`."""

from thinwire.cli.main import Verb

VERBS = {
    "workload": Verb("thinwire_lab.cli.workload", "workload", "Wide-area workloads: generate and describe them."),
    "samples": Verb("thinwire_lab.cli.samples", "samples", "Write sample events of a generated building or market."),
    "bench": Verb("thinwire_lab.cli.bench", "bench", "Measure bytes and time, ours beside the usual formats."),
    "reproduce": Verb("thinwire_lab.cli.reproduce", "reproduce", "Every table and figure again, with its command."),
}
