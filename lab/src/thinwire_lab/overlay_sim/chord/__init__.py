"""Chord: a ring of nodes, and routes between them."""
