"""Chord: a ring of nodes, routes between them (`ring`), and multicasts (`ring_multicast`)."""
