"""Dissemination on Chord: the cost of keeping every subscriber within its threshold, by scheme."""
