"""Placement measured: training of the stored model, experiments as cells of a grid, bars."""
