"""Metric scaling beside our embedding, by hand: `python benchmarks/metric_mds.py [FOLDER OF RECORDINGS]`."""

import sys
from pathlib import Path

from thinwire.evaluation.bench import Setting
from thinwire.evaluation.bench.metric_mds import metric_mds, smacof
from thinwire.evaluation.bench.workload_embedding import embedding

__all__ = ["metric_mds", "smacof"]

if __name__ == "__main__":
    for row in embedding(Setting(data=Path(sys.argv[1]) if len(sys.argv) > 1 else None)):
        print(row.name, row.value, row.how)
