"""Package marker of deterministic worlds."""
