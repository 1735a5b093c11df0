"""What users and we test with: checks, strategies, and the deterministic world."""
