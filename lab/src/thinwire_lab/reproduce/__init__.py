"""Reproduction of published tables and figures, with the published values beside ours."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire_lab.reproduce.experiment import EXPERIMENTS, Experiment, find
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "experiment": "EXPERIMENTS Experiment find",
        },
    )

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "find",
]
