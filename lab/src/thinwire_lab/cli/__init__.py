"""Package marker of the laboratory's commands."""
