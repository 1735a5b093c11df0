"""Robustness: fuzzing of everything that parses bytes, and a seeded world that runs the real services."""
