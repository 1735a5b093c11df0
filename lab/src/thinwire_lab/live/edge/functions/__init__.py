"""Processing functions of the load harness. Workers have this folder on their path."""
