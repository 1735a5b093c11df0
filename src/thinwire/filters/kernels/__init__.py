"""Compiled kernels: values against thresholds, one threshold or a million.

Kernels of matching, compiled.
"""
