"""Package marker of message streams and comparison formats."""
