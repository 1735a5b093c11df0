"""Published tables and figures again, ours beside theirs: experiments by name."""

from thinwire.evaluation.reproduce.experiment import EXPERIMENTS, Experiment, find

__all__ = ["EXPERIMENTS", "Experiment", "find"]
