"""Spark jobs of the lab: threshold delivery over tables and training of models for edge functions."""
