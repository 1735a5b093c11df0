"""The usual grid join beside our matching, by hand: `python lab/benchmarks/grid_join.py [quick]`."""

import sys

from thinwire_lab.bench.benchmark import Setting
from thinwire_lab.bench.spark.grid_join_bench import matching, usual_grid_join

__all__ = ["usual_grid_join"]

if __name__ == "__main__":
    for row in matching(Setting(quick="quick" in sys.argv)):
        print(row.name, row.value, row.how)
