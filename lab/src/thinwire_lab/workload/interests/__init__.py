"""Interests: hierarchies, how many subscribers each interest has, and the steps that reshape that."""
