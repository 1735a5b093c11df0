"""Reproduction of published tables and figures, with the published values beside ours."""
