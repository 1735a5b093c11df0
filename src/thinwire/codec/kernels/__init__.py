"""Compiled kernels: batches, single events at speed, and trials of predictors."""
