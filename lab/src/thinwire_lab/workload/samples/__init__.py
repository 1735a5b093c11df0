"""Generated sample streams, one module each: `building`, `market`, `taxi`."""
