"""Workloads: streams of events to try things on, generated from a seed."""
