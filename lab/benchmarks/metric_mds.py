"""Metric scaling beside our embedding, by hand: `python lab/benchmarks/metric_mds.py [FOLDER OF RECORDINGS]`."""

import sys
from pathlib import Path

from thinwire_lab.bench.benchmark import Setting
from thinwire_lab.bench.embedding_bench import embedding, metric_mds, smacof

__all__ = ["metric_mds", "smacof"]

if __name__ == "__main__":
    for row in embedding(Setting(data=Path(sys.argv[1]) if len(sys.argv) > 1 else None)):
        print(row.name, row.value, row.how)
