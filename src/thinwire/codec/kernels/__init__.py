"""Compiled kernels: encoding and decoding of single events and batches, and the cost of predictors."""
