"""Package marker of the placement reproduction."""
