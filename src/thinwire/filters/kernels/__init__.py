"""Compiled kernels of interval tables and rectangle indexes."""
