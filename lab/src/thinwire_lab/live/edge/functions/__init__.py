"""Processing functions of the load harness; their folder is on the path of the workers."""
