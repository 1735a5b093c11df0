"""Edge hosts under load, measured: schedules fixed in advance, latency from when a message was meant to be sent."""
