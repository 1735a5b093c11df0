"""Experiments, and the ledgers they write."""
