"""Package marker of the virtual event reproduction."""
