"""Measurements of the live system and of reference systems: worker processes around a real broker."""
