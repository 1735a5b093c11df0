"""The usual grid join beside our matching, by hand: `python benchmarks/grid_join.py [quick]`."""

import sys

from thinwire.evaluation.bench import Setting
from thinwire.spark.bench.workload_matching import matching
from thinwire.spark.bench.workload_references import usual_grid_join

__all__ = ["usual_grid_join"]

if __name__ == "__main__":
    for row in matching(Setting(quick="quick" in sys.argv)):
        print(row.name, row.value, row.how)
