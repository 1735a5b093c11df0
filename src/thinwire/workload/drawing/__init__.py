"""Drawing a workload of any size, row by row."""
