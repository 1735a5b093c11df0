"""Predicates on the values of an event: `where="price between 10 and 20 and region = 'EU'"`."""
