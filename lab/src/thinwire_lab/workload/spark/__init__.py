"""Package marker of workload jobs on Spark."""
