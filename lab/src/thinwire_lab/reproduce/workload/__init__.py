"""Package marker of the workload reproduction."""
