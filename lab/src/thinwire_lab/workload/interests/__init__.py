"""Hierarchies, counts of subscribers by interest and region, and transformations of these counts."""
