"""Generated sample streams: `market` and `taxi`."""
