"""Compiled kernels of threshold and rectangle indexes."""
