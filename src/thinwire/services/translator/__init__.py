"""The translator: encodes the events of a topic log again, for each demand class, into channels."""
