"""Spark jobs of workloads."""
