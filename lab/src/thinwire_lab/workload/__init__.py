"""Workloads: event streams, subscriptions and brokers, generated from a seed."""
