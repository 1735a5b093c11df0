"""Commands that the lab adds to `thinwire`."""

from thinwire.cli.main import Command

COMMANDS = {
    "workload": Command(
        "thinwire_lab.cli.workload", "workload", "Generate, describe, match, assign and run wide-area workloads."
    ),
    "samples": Command(
        "thinwire_lab.cli.samples", "samples", "Write sample events of a generated building, market or taxi city."
    ),
    "deliver": Command(
        "thinwire_lab.cli.deliver", "deliver", "Count what thresholds deliver of recorded events, on Spark."
    ),
    "sweep": Command("thinwire_lab.cli.sweep", "sweep", "Run a function over a grid of parameters, on Spark."),
    "train-edge": Command("thinwire_lab.cli.train_edge", "train_edge", "Train a model for an edge function, on Spark."),
    "place-model": Command("thinwire_lab.cli.place_model", "place_model", "Train and calibrate latency models."),
    "bench": Command(
        "thinwire_lab.cli.bench", "bench", "Measure bytes and time and compare them with reference methods."
    ),
    "reproduce": Command("thinwire_lab.cli.reproduce", "reproduce", "Reproduce published tables and figures."),
}
