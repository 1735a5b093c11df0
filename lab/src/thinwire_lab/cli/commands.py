"""Commands that the lab adds to `thinwire`."""

from thinwire.cli.main import Command

COMMANDS = {
    "workload": Command("thinwire_lab.cli.workload", "workload", "Wide-area workloads: generate and describe them."),
    "samples": Command("thinwire_lab.cli.samples", "samples", "Write sample events of a generated building or market."),
    "deliver": Command("thinwire_lab.cli.deliver", "deliver", "What thresholds deliver of recorded events, on Spark."),
    "sweep": Command("thinwire_lab.cli.sweep", "sweep", "Run a function over a grid of parameters, on Spark."),
    "train-edge": Command("thinwire_lab.cli.train_edge", "train_edge", "Train a model for an edge function, on Spark."),
    "place-model": Command("thinwire_lab.cli.place_model", "place_model", "Train and calibrate latency models."),
    "bench": Command("thinwire_lab.cli.bench", "bench", "Measure bytes and time, ours beside the usual formats."),
    "reproduce": Command("thinwire_lab.cli.reproduce", "reproduce", "Every table and figure again, with its command."),
}
