"""Package marker of published filter schemes."""
