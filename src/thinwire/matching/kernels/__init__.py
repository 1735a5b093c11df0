"""Kernels of matching, compiled."""
