"""Locations in the network: coordinates of nodes, subscribers and brokers."""
