"""Training and calibration of latency models: simulated hosts, measured runs, the published model for comparison."""
