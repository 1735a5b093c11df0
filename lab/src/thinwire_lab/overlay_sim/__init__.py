"""Overlays: Chord rings, and what it costs to keep subscribers within their tolerances on them."""
