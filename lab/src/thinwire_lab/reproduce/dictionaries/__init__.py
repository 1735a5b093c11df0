"""Dictionaries on streams: policies, topologies and batch sizes, each combination a cell of a sweep."""
